/* The plan of a run: what it holds, and how it is read from standard input. */
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#define MS 1000000LL
#define SECOND (1000 * MS)
#define DEPTH_MAX 4096ULL

enum framing { LINES, HTTP };

static void die(const char *what, const char *why) {
    fprintf(stderr, "load: %s: %s\n", what, why);
    exit(2);
}

static void *zeros(size_t count, size_t size) {
    void *block = calloc(count ? count : 1, size);
    if (!block) die("memory", "none left");
    return block;
}

typedef struct {
    char name[64];
    double weight;
    char *bytes;
    size_t length, id_at;
} request;

typedef struct {
    char name[64], *prologue;
    size_t prologue_length;
    int connections, depth, requests, page; /* page: its requests are the parts of a page */
    double rate, weights; /* rate: calls a second; 0 is a closed loop */
    u64 calls;            /* after which the group ends; 0: at the end of the run */
    ns starts;
    request *request;
} group;

static struct {
    union { struct sockaddr any; struct sockaddr_in in; struct sockaddr_in6 in6; struct sockaddr_un un; } to;
    socklen_t to_length;
    enum framing framing;
    int threads, groups, seconds, shed_codes[16], sheds;
    ns warm_up, length, drain, timeout, patience; /* patience: until all connections stand */
    u64 seed;
    group *group;
} plan;

/* -- reading the plan: a word and its values a line, bytes after `prologue` and `request` ----------- */

static char *bytes(size_t length) {
    char *block = zeros(length + 1, 1);
    if (fread(block, 1, length, stdin) != length || getchar() != '\n') die("plan", "cut short");
    return block;
}

static void read_address(const char *family, const char *where, int port) {
    plan.to_length = sizeof plan.to.in;
    if (!strcmp(family, "unix")) {
        plan.to.un.sun_family = AF_UNIX;
        if (strlen(where) >= sizeof plan.to.un.sun_path) die("the path of a socket is too long", where);
        strcpy(plan.to.un.sun_path, where);
        plan.to_length = sizeof plan.to.un;
    } else if (!strcmp(family, "tcp6")) {
        plan.to.in6 = (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)};
        if (inet_pton(AF_INET6, where, &plan.to.in6.sin6_addr) != 1) die("address", where);
        plan.to_length = sizeof plan.to.in6;
    } else {
        plan.to.in = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
        if (inet_pton(AF_INET, where, &plan.to.in.sin_addr) != 1) die("address", where);
    }
}

static void read_plan(void) {
    char line[1024], word[32], a[256], b[256];
    group *g = NULL;
    plan.threads = 1, plan.seed = 1;
    while (fgets(line, sizeof line, stdin)) {
        double x = 0, y = 0;
        size_t length = 0, at = 0;
        if (sscanf(line, "%31s", word) != 1) continue;
        const char *values = line + strlen(word);
        int one = sscanf(values, "%lf", &x);
        if (!strcmp(word, "connect") && sscanf(values, "%255s %255s %lf", a, b, &x) >= 2) read_address(a, b, (int)x);
        else if (!strcmp(word, "framing")) plan.framing = strstr(values, "http") ? HTTP : LINES;
        else if (!strcmp(word, "threads")) plan.threads = (int)x;
        else if (!strcmp(word, "seed")) plan.seed = (u64)x;
        else if (!strcmp(word, "warm-up-ms")) plan.warm_up = (ns)(x * MS);
        else if (!strcmp(word, "length-ms")) plan.length = (ns)(x * MS);
        else if (!strcmp(word, "drain-ms")) plan.drain = (ns)(x * MS);
        else if (!strcmp(word, "patience-ms")) plan.patience = (ns)(x * MS);
        else if (!strcmp(word, "timeout-ms")) plan.timeout = (ns)(x * MS);
        else if (!strcmp(word, "shed-code") && plan.sheds < 16) plan.shed_codes[plan.sheds++] = (int)x;
        else if (!strcmp(word, "group") && sscanf(values, "%63s", a) == 1) {
            plan.group = realloc(plan.group, sizeof *g * (size_t)(plan.groups + 1));
            g = &plan.group[plan.groups++];
            *g = (group){.connections = 1, .depth = 1};
            memcpy(g->name, a, sizeof g->name);
        } else if (!g) die("plan", line);
        else if (!strcmp(word, "connections")) g->connections = (int)x;
        else if (!strcmp(word, "depth") && x <= DEPTH_MAX) g->depth = (int)x;
        else if (!strcmp(word, "rate")) g->rate = x;
        else if (!strcmp(word, "calls")) g->calls = (u64)x;
        else if (!strcmp(word, "page")) g->page = x != 0;
        else if (!strcmp(word, "starts-ms")) g->starts = (ns)(x * MS);
        else if (!strcmp(word, "prologue") && one == 1) g->prologue = bytes(g->prologue_length = (size_t)x);
        else if (!strcmp(word, "request") && sscanf(values, "%63s %lf %zu %zu", a, &y, &at, &length) == 4) {
            g->request = realloc(g->request, sizeof *g->request * (size_t)(g->requests + 1));
            request *r = &g->request[g->requests++];
            *r = (request){.weight = y, .bytes = bytes(length), .length = length, .id_at = at};
            memcpy(r->name, a, sizeof r->name);
            g->weights += y;
        } else die("plan", line);
    }
    plan.seconds = (int)((plan.warm_up + plan.length + SECOND - 1) / SECOND);
    if (!plan.to_length || !plan.groups || plan.length <= 0 || plan.threads < 1) die("plan", "not complete");
}

