/* What is said: progress while it runs, and the result as JSON. */
/* `h` is room for two. */
static void print_methods(thread *threads, int number, histogram *h) {
    const group *g = &plan.group[number];
    for (int r = 0; r < g->requests; r++) {
        u64 total[OUTCOMES] = {0}, measured[OUTCOMES] = {0};
        memset(h, 0, 2 * sizeof *h);
        for (int t = 0; t < plan.threads; t++) {
            counts *of = &threads[t].flow[number].of[r];
            for (int o = 0; o < OUTCOMES; o++) total[o] += of->total[o], measured[o] += of->measured[o];
            add(&h[0], &of->latency), add(&h[1], &of->service);
        }
        printf("%s{\"name\":\"%s\"", r ? "," : "", g->request[r].name);
        for (int o = 0; o < OUTCOMES; o++) printf("%s\"%s\":%lu", o ? "," : ",\"total\":{", OUTCOME[o], total[o]);
        for (int o = 0; o < OUTCOMES; o++) printf("%s\"%s\":%lu", o ? "," : "},\"measured\":{", OUTCOME[o], measured[o]);
        printf("},\"latency\":"), print_histogram(&h[0]);
        printf(",\"service\":"), print_histogram(&h[1]);
        printf("}");
    }
}

static void print_group(thread *threads, int number) {
    const group *g = &plan.group[number];
    u64 sent = 0, refused = 0, lost = 0, stray = 0, unsent = 0, most = 0;
    u64 answered = 0, in = 0, out = 0, pages = 0, broken = 0;
    histogram *h = zeros(2, sizeof *h);
    for (int t = 0; t < plan.threads; t++) {
        flow *f = &threads[t].flow[number];
        sent += f->sent, refused += f->refused, lost += f->lost, stray += f->stray, most += f->most_backlog;
        unsent += f->backlog_end - f->backlog_first;
        answered += f->answered, in += f->bytes_in, out += f->bytes_out;
        pages += f->page.ok, broken += f->page.failed, add(&h[0], &f->page.latency);
    }
    printf("{\"name\":\"%s\",\"sent\":%lu,\"unsent\":%lu,\"refused\":%lu,\"lost\":%lu,\"stray\":%lu,\"most_backlog\":%lu,", g->name, sent, unsent, refused, lost, stray, most);
    printf("\"answered\":%lu,\"bytes_in\":%lu,\"bytes_out\":%lu,", answered, in, out);
    printf("\"pages\":{\"ok\":%lu,\"failed\":%lu,\"latency\":", pages, broken), print_histogram(&h[0]);
    printf("},\"methods\":[");
    print_methods(threads, number, h);
    printf("],\"seconds\":[");
    for (int s = 0; s < plan.seconds; s++) {
        u64 failed = 0;
        memset(h, 0, sizeof *h);
        for (int t = 0; t < plan.threads; t++)
            add(&h[0], &threads[t].flow[number].second[s].latency), failed += threads[t].flow[number].second[s].failed;
        printf("%s{\"failed\":%lu,\"latency\":", s ? "," : "", failed), print_histogram(&h[0]), printf("}");
    }
    printf("]}");
    free(h);
}

static void tell(void) { /* progress, while the threads run */
    u64 before = 0;
    for (ns next = 0;;) {
        usleep(50000);
        if (!started) continue;
        ns at = now();
        if (!next) next = started + SECOND;
        if (at >= ends) return;
        if (at < next) continue;
        u64 ok = progress_ok;
        fprintf(stderr, "progress %.0f %lu %lu\n", (double)(at - started) / SECOND, ok - before, progress_other);
        before = ok, next += SECOND;
    }
}

static void *teller(void *unused) { tell(); return unused; }
