/* Log-linear histograms: 64 buckets to an octave, so a value is off by at most 1.6 %. */
#include <stdint.h>
#include <stdio.h>

typedef uint64_t u64;
typedef int64_t ns;

#define SUB_BITS 6
#define SUB (1 << SUB_BITS)
#define BUCKETS (SUB * 38)

typedef struct {
    u64 count, sum, max;
    uint32_t in[BUCKETS];
} histogram;

static int bucket_of(u64 value) {
    if (value < SUB) return (int)value;
    int shift = 63 - __builtin_clzll(value) - SUB_BITS;
    int bucket = (shift + 1) * SUB + (int)((value >> shift) - SUB);
    return bucket < BUCKETS ? bucket : BUCKETS - 1;
}

static void note(histogram *h, ns value) {
    u64 v = value > 0 ? (u64)value : 0;
    h->count++;
    h->sum += v;
    if (v > h->max) h->max = v;
    h->in[bucket_of(v)]++;
}

static void add(histogram *to, const histogram *from) {
    to->count += from->count;
    to->sum += from->sum;
    if (from->max > to->max) to->max = from->max;
    for (int i = 0; i < BUCKETS; i++) to->in[i] += from->in[i];
}

static void print_histogram(const histogram *h) {
    printf("{\"count\":%lu,\"sum\":%lu,\"max\":%lu,\"buckets\":[", h->count, h->sum, h->max);
    const char *comma = "";
    for (int i = 0; i < BUCKETS; i++)
        if (h->in[i]) printf("%s[%d,%u]", comma, i, h->in[i]), comma = ",";
    printf("]}");
}

