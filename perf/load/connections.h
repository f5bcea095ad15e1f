/* Connections: dialled, greeted, lost. */
#include <netinet/tcp.h>

static void dial(thread *t, connection *c, ns at) {
    c->fd = socket(plan.to.any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (c->fd < 0) die("socket", strerror(errno));
    int one = 1;
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    c->stage = CONNECTING;
    c->in_end = c->looked = c->needed = c->out_first = c->out_end = 0;
    c->order_first = c->order_end = 0;
    c->free_count = c->flow->plan->depth;
    for (int i = 0; i < c->free_count; i++) c->free[i] = c->free_count - 1 - i, c->slot[i].state = FREE;
    if (connect(c->fd, &plan.to.any, plan.to_length) < 0 && errno != EINPROGRESS) {
        dial_error = errno;
        close(c->fd); /* a Unix socket says at once that nobody listens, or that too many wait */
        if (started) c->flow->refused++;
        c->stage = CLOSED, c->again = at + AGAIN_NS;
        return;
    }
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT, .data.ptr = c};
    epoll_ctl(t->epoll, EPOLL_CTL_ADD, c->fd, &event);
    c->wants_write = 1;
}

static void lose(connection *c, enum outcome how, ns at) {
    if (c->stage == CONNECTING) c->flow->refused += started != 0;
    else c->flow->lost++;
    for (int i = 0; i < c->flow->plan->depth; i++)
        if (c->slot[i].state == IN_FLIGHT) settle(c, i, how, at), c->slot[i].state = FREE;
    close(c->fd);
    c->stage = CLOSED, c->again = at + AGAIN_NS;
}

static void opened(thread *t, connection *c, ns at) {
    c->stage = OPEN;
    refill(t, c, at);
}

static void connected(thread *t, connection *c, ns at) {
    int error = 0;
    socklen_t size = sizeof error;
    getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &error, &size);
    if (error) { dial_error = error; lose(c, RESET, at); return; }
    const group *g = c->flow->plan;
    if (!g->prologue_length) { opened(t, c, at); flush(t, c); return; }
    c->stage = GREETING;
    put(c, g->prologue, g->prologue_length);
    flush(t, c);
}
