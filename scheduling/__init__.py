"""Policies of the fair call queue: pure arithmetic over plain arrays, with time passed in.

Nothing here knows of processes, sockets or shared memory; the arrays may lie anywhere. Each module
names the Hadoop class it follows, gives the formula and lists how ours differs.

    who      identity -> decay (+ ledger, response_time) | history        -> level
    what     cost                                                         -> charge
    where    capacity -> queues (+ turns) <- multiplexer                  -> next call
    whether  backoff, admission                                           -> refusal
    which    parsing, conf, components, selection                         -> the above, from text
"""
