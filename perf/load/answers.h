/* Answers: taken off a connection, told apart, matched to their calls. */
#define LARGE (1 << 20) /* bytes */

/* A member is looked for at both ends of an answer: what is between is its result, and may be large. */
static const char *member(const char *text, size_t length, const char *name) {
    size_t wide = strlen(name), end = 512;
    const char *found = memmem(text, length < end ? length : end, name, wide);
    if (found || length <= end) return found ? found + wide : NULL;
    const char *tail = text + length - (length < 2 * end ? length - end : end);
    found = memmem(tail, (size_t)(text + length - tail), name, wide);
    return found ? found + wide : NULL;
}

static enum outcome outcome_of(const char *text, size_t length, int status) {
    const char *error = member(text, length, "\"error\":");
    if (status == 429 || status == 503) return SHED;
    while (error && *error == ' ') error++;
    if (!error || !strncmp(error, "null", 4)) return status >= 400 ? ERROR : OK;
    const char *code = member(error, length - (size_t)(error - text), "\"code\":");
    for (int i = 0; code && i < plan.sheds; i++)
        if (atoi(code) == plan.shed_codes[i]) return SHED;
    return ERROR;
}

static void tell_first_error(const char *text, size_t length) {
    static int told;
    if (!__atomic_exchange_n(&told, 1, __ATOMIC_RELAXED))
        fprintf(stderr, "first error %.*s\n", (int)(length < 300 ? length : 300), text);
}

static void answered(connection *c, const char *text, size_t length, int status, ns at) {
    const char *member_id = member(text, length, "\"id\":");
    u64 id = member_id ? strtoull(member_id, NULL, 10) : 0;
    int depth = c->flow->plan->depth, index = -1;
    if (plan.framing == HTTP && c->order_first < c->order_end) {
        index = c->order[c->order_first++ % (u64)depth];
        if (id && id != c->slot[index].id) index = -1;
    } else if (plan.framing == LINES && id >= FIRST_ID)
        index = (int)((id - FIRST_ID) % DEPTH_MAX);
    int known = index >= 0 && index < depth && c->slot[index].state != FREE;
    if (!known || (plan.framing == LINES && c->slot[index].id != id)) { c->flow->stray++; return; }
    if (c->slot[index].state == GIVEN_UP) c->flow->stray++;
    enum outcome outcome = outcome_of(text, length, status);
    if (outcome == ERROR) tell_first_error(text, length);
    settle_and_free(c, index, outcome, at);
}

/* Takes one HTTP answer off the front; how many bytes it was, 0 if it is not whole yet. */
static size_t take_http(connection *c, char *text, size_t length, ns at) {
    char *blank = memmem(text, length, "\r\n\r\n", 4);
    if (!blank) return 0;
    size_t head = (size_t)(blank + 4 - text), body = SIZE_MAX;
    for (char *line = text; line && line < blank; line = memmem(line, head - (size_t)(line - text), "\r\n", 2)) {
        if (line != text) line += 2;
        if (!strncasecmp(line, "content-length:", 15)) body = strtoull(line + 15, NULL, 10);
        else if (line == text) line++;
    }
    int status = length > 12 ? atoi(text + 9) : 0;
    if (body == SIZE_MAX && status == 204) body = 0;
    if (body == SIZE_MAX) die("answer without Content-Length, which is all that is read here", text);
    if (length < head + body) { c->needed = head + body; return 0; }
    answered(c, text + head, body, status, at);
    return head + body;
}

static size_t take_line(thread *t, connection *c, char *text, size_t length, ns at) {
    char *end = memchr(text + c->looked, '\n', length - c->looked);
    if (!end) { c->looked = length; return 0; }
    size_t line = (size_t)(end - text);
    c->looked = 0;
    if (c->stage != GREETING) answered(c, text, line, 200, at);
    else if (member(text, line, "\"error\":")) { *end = 0; die("the server refused the first line of a connection", text); }
    else opened(t, c, at);
    return line + 1;
}

/* Room for large answers goes from one connection to the next: a thousand of them share it. */
static void widen(thread *t, connection *c, size_t needs) {
    if (needs > LARGE && needs > c->in_room && t->spare_room >= needs) {
        memcpy(t->spare, c->in, c->in_end);
        free(c->in);
        c->in = t->spare, c->in_room = t->spare_room;
        t->spare = NULL, t->spare_room = 0;
    }
    c->in = room(c->in, &c->in_room, needs);
}

static void narrow(thread *t, connection *c) {
    if (c->in_end || c->in_room <= LARGE) return;
    char *less = t->spare;
    if (c->in_room > t->spare_room) t->spare = c->in, t->spare_room = c->in_room;
    else less = c->in;
    free(less);
    c->in = NULL, c->in_room = 0;
}

static void readable(thread *t, connection *c) {
    size_t more = c->needed > c->in_end ? c->needed - c->in_end : 0;
    widen(t, c, c->in_end + (more > 65536 ? more : 65536) + 1);
    ssize_t n = recv(c->fd, c->in + c->in_end, c->in_room - c->in_end - 1, 0);
    ns at = now();
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (n <= 0) { lose(c, n ? RESET : ENDED, at); return; }
    c->in_end += (size_t)n;
    if (started && at >= measure && at < ends) c->flow->bytes_in += (u64)n;
    c->in[c->in_end] = 0;
    if (c->in_end < c->needed) return;
    c->needed = 0;
    size_t from = 0, used = 1;
    while (from < c->in_end && used) {
        char *text = c->in + from;
        used = plan.framing == HTTP ? take_http(c, text, c->in_end - from, at)
                                    : take_line(t, c, text, c->in_end - from, at);
        from += used;
    }
    memmove(c->in, c->in + from, c->in_end - from);
    c->in_end -= from;
    narrow(t, c);
    refill(t, c, at);
}
