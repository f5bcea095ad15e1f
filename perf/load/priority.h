/* Who makes calls at given times must run at those times, also where servers keep every core busy. */
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#define SLICE_NS (100 * 1000)
#define NICE (-11)

/* `struct sched_attr`, version 0. Of an ordinary task Linux takes `runtime` as its slice (6.12, EEVDF). */
typedef struct {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
} sched_attributes;

/* Ask for the best that this process may have, for the calling thread; what it got. */
static const char *hurry(void) {
    struct sched_param least = {.sched_priority = 1};
    if (!pthread_setschedparam(pthread_self(), SCHED_FIFO, &least)) return "real-time";
    int nice = setpriority(PRIO_PROCESS, 0, NICE) ? 0 : NICE; /* of this thread only, on Linux */
    sched_attributes slice = {.size = sizeof slice, .nice = nice, .runtime = SLICE_NS};
    int taken = !syscall(SYS_sched_setattr, 0, &slice, 0);
    return nice ? "nice" : taken ? "short slice" : "ordinary";
}

static int any_open_loop(void) {
    for (int i = 0; i < plan.groups; i++)
        if (plan.group[i].rate > 0) return 1;
    return 0;
}
