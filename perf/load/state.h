/* What a thread has: its connections, the calls in flight on them, and what became of them. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include "histogram.h"
#include "plan.h"

#define FIRST_ID 1000000000ULL /* ids have ten digits: FIRST_ID + round * DEPTH_MAX + slot */
#define ROUNDS 500000ULL
#define AGAIN_NS (20 * MS) /* until a connection that was lost is dialled again */
#define LOOK_NS (20 * MS)  /* between two looks at what is overdue */
#define NAP_NS (5 * MS)    /* longest wait for events */

enum outcome { OK, ERROR, SHED, TIMEOUT, RESET, ENDED, OUTCOMES };
static const char *const OUTCOME[] = {"ok", "error", "shed", "timeout", "reset", "eof"};

typedef struct {
    u64 total[OUTCOMES], measured[OUTCOMES];
    histogram latency, service; /* of OK calls that count: from when they were due, and were sent */
} counts;

typedef struct {
    u64 failed;
    histogram latency;
} second;

typedef struct { /* a page that is being loaded, and those that were */
    int parts, *part; /* the request of each part */
    int next, missing, broken, begins;
    ns at;
    u64 ok, failed;
    histogram latency;
} page;

typedef struct connection connection;

typedef struct {
    const group *plan;
    counts *of; /* by request */
    second *second;
    connection **connection;
    int connections, turn;
    double rate;
    u64 calls, sent, refused, lost, stray, most_backlog;
    u64 answered, bytes_in, bytes_out; /* while it counts: OK answers, bytes */
    page page;
    ns due, *backlog; /* times of calls that are due and wait for a free slot: a ring */
    size_t backlog_room, backlog_first, backlog_end;
} flow;

enum slot_state { FREE, IN_FLIGHT, GIVEN_UP };
typedef struct {
    enum slot_state state;
    int request;
    u64 id;
    ns due, sent;
} slot;

enum stage { CLOSED, CONNECTING, GREETING, OPEN };
struct connection {
    int fd, wants_write, free_count;
    enum stage stage;
    flow *flow;
    slot *slot;
    int *free, *order; /* free slots: a stack; HTTP answers come in `order`, a ring of `depth` */
    u64 order_first, order_end, round;
    ns again;
    char *out, *in;
    size_t out_first, out_end, out_room, in_end, in_room, looked, needed;
};

typedef struct {
    pthread_t id;
    int epoll, connections;
    connection *connection;
    flow *flow;
    u64 random;
    ns cpu_from, cpu_to, looked;
    char *spare; /* room of a large answer, for the next one */
    size_t spare_room;
    const char *priority;
    histogram lag; /* how late this program sent what was due */
} thread;

static pthread_barrier_t gate;
static ns started;         /* 0 until all connections stand */
static ns measure, ends;   /* what is due, or answered, in between counts */
static volatile u64 progress_ok, progress_other;
static volatile int dial_error;

static ns now_ns(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec * SECOND + t.tv_nsec;
}
static ns now(void) { return now_ns(CLOCK_MONOTONIC); }

static double uniform(thread *t) { /* in (0, 1) */
    t->random ^= t->random << 13;
    t->random ^= t->random >> 7;
    t->random ^= t->random << 17;
    return ((double)(t->random >> 12) + 0.5) / 4503599627370496.0;
}

static void *room(void *block, size_t *has, size_t needs) {
    if (*has >= needs) return block;
    *has = needs * 2;
    if (!(block = realloc(block, *has))) die("memory", "none left");
    return block;
}
