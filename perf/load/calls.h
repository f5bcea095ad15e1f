/* Calls: when they are due, on which connection they go out, and that they are settled. */
static int counting(void) {
    ns at = started ? now() : 0;
    return started && at >= measure && at < ends;
}

/* A page: its parts go out on whatever connection of the group is free; the next page begins when
 * none is missing. It counts if its last part comes while it counts, and is broken if a part is. */
static void begin_page(page *p, ns at) {
    p->next = p->broken = 0, p->missing = p->parts, p->at = at;
}

static void part_came(page *p, enum outcome outcome, ns at) {
    p->broken |= outcome != OK;
    if (--p->missing) return;
    if (at >= measure && at < ends) {
        if (p->broken) p->failed++;
        else p->ok++, note(&p->latency, at - p->at);
    }
    begin_page(p, at);
    p->begins = 1; /* idle connections are told by `turn_pages` */
}

static void settle(connection *c, int index, enum outcome outcome, ns at) {
    slot *s = &c->slot[index];
    flow *f = c->flow;
    counts *of = &f->of[s->request];
    int open = f->rate > 0;
    of->total[outcome]++;
    if (outcome == OK && at >= measure && at < ends) f->answered++;
    if (f->plan->page) part_came(&f->page, outcome, at);
    __atomic_fetch_add(outcome == OK ? &progress_ok : &progress_other, 1, __ATOMIC_RELAXED);
    ns counts_at = open ? s->due : at;
    if (counts_at >= measure && counts_at < ends) {
        of->measured[outcome]++;
        if (outcome == OK) note(&of->latency, at - s->due), note(&of->service, at - s->sent);
    }
    long in = (long)((counts_at - started) / SECOND);
    if (in >= 0 && in < plan.seconds) {
        if (outcome == OK) note(&f->second[in].latency, at - s->due);
        else f->second[in].failed++;
    }
}

static void settle_and_free(connection *c, int index, enum outcome outcome, ns at) {
    if (c->slot[index].state == IN_FLIGHT) settle(c, index, outcome, at);
    c->slot[index].state = FREE;
    c->free[c->free_count++] = index;
}

static int chosen(thread *t, const group *g) {
    if (g->requests == 1) return 0;
    double at = uniform(t) * g->weights;
    int i = 0;
    while (i < g->requests - 1 && (at -= g->request[i].weight) >= 0) i++;
    return i;
}

static void put(connection *c, const char *bytes, size_t length) {
    c->out = room(c->out, &c->out_room, c->out_end + length);
    memcpy(c->out + c->out_end, bytes, length);
    c->out_end += length;
}

/* Writes one call into the connection's buffer; `flush` sends it. */
static void issue(thread *t, connection *c, ns due, ns at) {
    flow *f = c->flow;
    int index = c->free[--c->free_count], which = f->plan->page ? f->page.part[f->page.next++] : chosen(t, f->plan);
    const request *r = &f->plan->request[which];
    u64 id = FIRST_ID + (c->round++ % ROUNDS) * DEPTH_MAX + (u64)index;
    c->slot[index] = (slot){IN_FLIGHT, which, id, due, at};
    c->order[c->order_end++ % (u64)f->plan->depth] = index;
    put(c, r->bytes, r->length);
    char *digits = c->out + c->out_end - r->length + r->id_at;
    for (int i = 9; i >= 0; i--, id /= 10) digits[i] = (char)('0' + id % 10);
    f->sent++;
}

static void watch(thread *t, connection *c, int write) {
    struct epoll_event event = {.events = EPOLLIN | (write ? EPOLLOUT : 0), .data.ptr = c};
    epoll_ctl(t->epoll, EPOLL_CTL_MOD, c->fd, &event);
    c->wants_write = write;
}

static void flush(thread *t, connection *c) {
    while (c->out_first < c->out_end) {
        ssize_t n = send(c->fd, c->out + c->out_first, c->out_end - c->out_first, MSG_NOSIGNAL);
        if (n < 0) { /* other errors are seen where it is read */
            if (errno == EAGAIN && !c->wants_write) watch(t, c, 1);
            return;
        }
        c->out_first += (size_t)n;
        if (counting()) c->flow->bytes_out += (u64)n;
    }
    c->out_first = c->out_end = 0;
    if (c->wants_write) watch(t, c, 0);
}

/* A connection with a free slot, the next one in turn; NULL if there is none. */
static connection *ready_connection(flow *f) {
    for (int i = 0; i < f->connections; i++) {
        connection *c = f->connection[(f->turn + i) % f->connections];
        if (c->stage == OPEN && c->free_count) {
            f->turn = (f->turn + i + 1) % f->connections;
            return c;
        }
    }
    return NULL;
}

static int may_send(const flow *f) {
    if (f->plan->page && f->page.next == f->page.parts) return 0;
    return !f->plan->calls || f->sent < f->calls;
}

/* What a connection with free slots has to do: a closed loop is topped up, a backlog is worked off. */
static void refill(thread *t, connection *c, ns at) {
    flow *f = c->flow;
    if (!started || c->stage != OPEN) return;
    if (f->rate > 0)
        while (c->free_count && f->backlog_first != f->backlog_end)
            issue(t, c, f->backlog[f->backlog_first++ % f->backlog_room], at);
    else if (at < ends && at >= started + f->plan->starts)
        while (c->free_count && may_send(f)) issue(t, c, at, at);
    flush(t, c);
}

static void wait_in_backlog(flow *f, ns due) {
    size_t length = f->backlog_end - f->backlog_first;
    if (length == f->backlog_room) {
        size_t wider = length ? length * 2 : 1024;
        ns *ring = zeros(wider, sizeof *ring);
        for (size_t i = 0; i < length; i++)
            ring[i] = f->backlog[(f->backlog_first + i) % f->backlog_room];
        free(f->backlog);
        f->backlog = ring, f->backlog_room = wider, f->backlog_first = 0, f->backlog_end = length;
    }
    f->backlog[f->backlog_end++ % f->backlog_room] = due;
    if (length + 1 > f->most_backlog) f->most_backlog = length + 1;
}

/* The calls of an open loop that are due by `at`. */
static void arrivals(thread *t, flow *f, ns at) {
    size_t waits = f->backlog_end - f->backlog_first;
    while (f->due <= at && f->due < ends) {
        if (f->plan->calls && f->sent + waits >= f->calls) break;
        if (f->due >= measure) note(&t->lag, at - f->due);
        connection *c = waits ? NULL : ready_connection(f);
        if (c) issue(t, c, f->due, at), flush(t, c);
        else wait_in_backlog(f, f->due), waits++;
        f->due += (ns)(-log(uniform(t)) / f->rate * (double)SECOND) + 1;
    }
}

/* Connections that idle take their share of the pages that have begun. */
static void turn_pages(thread *t) {
    for (int i = 0; i < plan.groups; i++) {
        flow *f = &t->flow[i];
        if (!f->page.begins) continue;
        f->page.begins = 0;
        for (int j = 0; j < f->connections; j++) refill(t, f->connection[j], now());
    }
}
