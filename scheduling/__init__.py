"""Policies of the fair call queue: pure arithmetic over plain arrays, with time passed in.

Nothing here knows of processes, sockets or shared memory; the arrays may lie anywhere. Each module
names the class of Hadoop or Pulsar that it follows, gives the formula and lists how ours differs.

    who      identity -> decay (+ ledger, response_time) | history        -> level
    what     cost                                                         -> charge
    where    capacity -> queues (+ turns) <- multiplexer                  -> next call
    whether  backoff, admission                                           -> refusal
    when     dispatch_policies -> dispatch_counters -> dispatch_budget    -> now, or when
    which    parsing, conf, components, selection                         -> the above, from text
"""
