/* A load generator: prepared requests over stream sockets, one epoll loop per thread.
 *
 *   closed loop   each connection keeps `depth` calls in flight
 *   open loop     calls are due at the times of a Poisson process, whatever becomes of them; a call's
 *                 latency runs from the moment at which it was due (no coordinated omission)
 *
 * The plan comes from standard input, the result goes to standard output as one JSON object, what
 * happens meanwhile to standard error, a line a second. perf/bench/plan.py writes plans and explains
 * them, perf/bench/result.py reads results. What a request is made of is the plan's business: this
 * program sees bytes, the place of the ten digits of their id, and an answer's id, error and end.
 *
 *   cc -O2 -o load load.c -lpthread -lm
 */
#define _GNU_SOURCE
#include <poll.h>
#include <sys/prctl.h>

#include "state.h"
#include "calls.h"
#include "connections.h"
#include "answers.h"
#include "output.h"
#include "priority.h"

/* -- a thread's loop ------------------------------------------------------------------------------ */

static int greeted(thread *t) {
    for (int i = 0; i < t->connections; i++)
        if (t->connection[i].stage != OPEN) return 0;
    return 1;
}

/* Connections that are to be dialled again, calls that took too long; true if none is in flight. */
static int look_around(thread *t, ns at) {
    int idle = 1;
    t->looked = at;
    for (int i = 0; i < t->connections; i++) {
        connection *c = &t->connection[i];
        if (c->stage == CLOSED && at >= c->again && (!started || at < ends)) dial(t, c, at);
        if (c->flow->rate <= 0) refill(t, c, at); /* before the look, for what it sends is in flight */
        for (int s = 0; s < c->flow->plan->depth; s++) {
            if (c->slot[s].state != IN_FLIGHT || c->stage != OPEN) continue;
            if (plan.timeout && at - c->slot[s].due > plan.timeout)
                settle(c, s, TIMEOUT, at), c->slot[s].state = GIVEN_UP;
            else idle = 0;
        }
        idle &= c->flow->backlog_first == c->flow->backlog_end || c->stage != OPEN;
    }
    return idle;
}

static ns next_due(thread *t, ns at) {
    ns wait = NAP_NS;
    for (int i = 0; started && i < plan.groups; i++)
        if (t->flow[i].rate > 0 && t->flow[i].connections && t->flow[i].due < ends && may_send(&t->flow[i]))
            if (t->flow[i].due - at < wait) wait = t->flow[i].due - at;
    return wait > 0 ? wait : 0;
}

static void turn(thread *t) {
    struct epoll_event events[256];
    ns wait = next_due(t, now());
    struct timespec most = {.tv_nsec = wait};
    struct pollfd any = {.fd = t->epoll, .events = POLLIN};
    int n = ppoll(&any, 1, &most, NULL) > 0 ? epoll_wait(t->epoll, events, 256, 0) : 0;
    for (int i = 0; i < n; i++) {
        connection *c = events[i].data.ptr;
        if (c->stage == CONNECTING) connected(t, c, now());
        else if (c->stage != CLOSED && events[i].events & (EPOLLIN | EPOLLERR | EPOLLHUP)) readable(t, c);
        if ((c->stage == OPEN || c->stage == GREETING) && events[i].events & EPOLLOUT) flush(t, c);
        if (started && i % 16 == 15)
            for (int f = 0; f < plan.groups; f++)
                if (t->flow[f].rate > 0 && t->flow[f].connections) arrivals(t, &t->flow[f], now());
    }
    for (int f = 0; started && f < plan.groups; f++)
        if (t->flow[f].rate > 0 && t->flow[f].connections) arrivals(t, &t->flow[f], now());
    turn_pages(t);
}

static int all_sent(thread *t) { /* every group of this thread has made its number of calls */
    for (int i = 0; i < plan.groups; i++)
        if (t->flow[i].connections && (!t->flow[i].plan->calls || may_send(&t->flow[i]))) return 0;
    return 1;
}

static void *run(void *argument) {
    thread *t = argument;
    prctl(PR_SET_TIMERSLACK, 1UL, 0, 0, 0);
    t->priority = any_open_loop() ? hurry() : "ordinary";
    ns gives_up = now() + plan.patience;
    while (!greeted(t)) {
        look_around(t, now());
        turn(t);
        if (now() > gives_up) die("cannot connect", dial_error ? strerror(dial_error) : "too slow");
    }
    if (pthread_barrier_wait(&gate) == PTHREAD_BARRIER_SERIAL_THREAD) {
        ns at = now();
        measure = at + plan.warm_up, ends = measure + plan.length, started = at;
    }
    pthread_barrier_wait(&gate);
    for (int i = 0; i < plan.groups; i++) {
        flow *f = &t->flow[i];
        f->due = started + f->plan->starts;
        if (f->rate > 0) f->due += (ns)(-log(uniform(t)) / f->rate * (double)SECOND);
        begin_page(&f->page, f->due);
    }
    for (int i = 0; i < t->connections; i++) refill(t, &t->connection[i], now());
    for (int idle = 0;;) {
        turn(t);
        ns at = now();
        if (!t->cpu_from && at >= measure) t->cpu_from = now_ns(CLOCK_THREAD_CPUTIME_ID);
        if (!t->cpu_to && at >= ends) t->cpu_to = now_ns(CLOCK_THREAD_CPUTIME_ID);
        /* `idle` is as of the last look: what was sent since, the last call perhaps, is in flight. */
        if (at - t->looked >= LOOK_NS || at >= ends || (idle && all_sent(t))) idle = look_around(t, at);
        if (at >= ends + plan.drain || (idle && (at >= ends || all_sent(t)))) break;
    }
    ns at = now();
    for (int i = 0; i < t->connections; i++)
        for (int s = 0; s < t->connection[i].flow->plan->depth; s++)
            if (t->connection[i].slot[s].state == IN_FLIGHT) settle(&t->connection[i], s, TIMEOUT, at);
    return NULL;
}

/* -- handing connections to threads, and the result ------------------------------------------------ */

/* As many parts of each request as its weight says. */
static void prepare_page(page *p, const group *g) {
    for (int i = 0; i < g->requests; i++) p->parts += (int)g->request[i].weight;
    p->part = zeros((size_t)p->parts, sizeof *p->part);
    for (int i = 0, at = 0; i < g->requests; i++)
        for (int n = 0; n < (int)g->request[i].weight; n++) p->part[at++] = i;
}

static void prepare(thread *t, int number) {
    t->epoll = epoll_create1(EPOLL_CLOEXEC);
    t->random = (plan.seed * 1000 + (u64)number + 1) * 0x9E3779B97F4A7C15ULL;
    t->flow = zeros((size_t)plan.groups, sizeof *t->flow);
    int nth = 0;
    for (int i = 0; i < plan.groups; i++) t->connections += plan.group[i].connections;
    t->connection = zeros((size_t)t->connections, sizeof *t->connection);
    t->connections = 0;
    for (int i = 0; i < plan.groups; i++) {
        const group *g = &plan.group[i];
        flow *f = &t->flow[i];
        f->plan = g;
        f->of = zeros((size_t)g->requests, sizeof *f->of);
        if (g->page) prepare_page(&f->page, g);
        f->second = zeros((size_t)plan.seconds, sizeof *f->second);
        f->connection = zeros((size_t)g->connections, sizeof *f->connection);
        for (int j = 0; j < g->connections; j++, nth++) {
            if ((g->page ? i : nth) % plan.threads != number) continue;
            connection *c = &t->connection[t->connections++];
            f->connection[f->connections++] = c;
            c->flow = f;
            c->slot = zeros((size_t)g->depth, sizeof *c->slot);
            c->free = zeros((size_t)g->depth, sizeof *c->free);
            c->order = zeros((size_t)g->depth, sizeof *c->order);
        }
        u64 before = (u64)(nth - g->connections); /* how many of this group went to earlier threads */
        u64 taken = 0;
        for (u64 k = before; k < (u64)nth && !g->page; k++) taken += (int)(k % (u64)plan.threads) < number;
        f->rate = g->rate * f->connections / g->connections;
        f->calls = g->calls * (taken + (u64)f->connections) / (u64)g->connections - g->calls * taken / (u64)g->connections;
    }
}

int main(void) {
    read_plan();
    thread *threads = zeros((size_t)plan.threads, sizeof *threads);
    pthread_barrier_init(&gate, NULL, (unsigned)plan.threads);
    for (int i = 0; i < plan.threads; i++) prepare(&threads[i], i);
    for (int i = 0; i < plan.threads; i++)
        if (pthread_create(&threads[i].id, NULL, run, &threads[i])) die("thread", strerror(errno));
    pthread_t progress;
    pthread_create(&progress, NULL, teller, NULL);
    histogram *lag = zeros(1, sizeof *lag);
    double busiest = 0, all = 0, wall = (double)plan.length;
    for (int i = 0; i < plan.threads; i++) {
        pthread_join(threads[i].id, NULL);
        double share = (double)(threads[i].cpu_to - threads[i].cpu_from) / wall;
        if (threads[i].cpu_to) all += share, busiest = share > busiest ? share : busiest;
        add(lag, &threads[i].lag);
    }
    printf("{\"generator\":\"c\",\"length_ns\":%ld,\"warm_up_ns\":%ld,\"cores\":%.4f,\"busiest_core\":%.4f,\"priority\":\"%s\",\"lag\":", plan.length, plan.warm_up, all, busiest, threads[0].priority);
    print_histogram(lag);
    printf(",\"groups\":[");
    for (int i = 0; i < plan.groups; i++) printf(i ? "," : ""), print_group(threads, i);
    printf("]}\n");
    return 0;
}
