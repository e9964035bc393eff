#include "device/pick.h"

#include <string.h>

/* ---- one model
 * ------------------------------------------------------------------------------------------------------- */

int lsi_pick_alike(const lsi_inventory *inventory, const int *candidates, int n, int first, bool mixed, int *out)
{
    const lsi_gpu *model = &inventory->gpus[candidates[first]];
    int m = 0;

    for (int i = 0; i < n; i++) {
        const lsi_gpu *gpu = &inventory->gpus[candidates[i]];

        if (mixed || (strcmp(gpu->name, model->name) == 0 && gpu->capability == model->capability)) {
            out[m++] = candidates[i];
        }
    }
    return m;
}

/* ---- well connected
 * ---------------------------------------------------------------------------------------------------- */

/* A set, as places in the list of candidates in rising order. */
typedef struct set {
    int n, members[LSI_GPU_MAX];
    int in_use, worst, sum, ranks;
} set;

static bool is_in_use(const lsi_gpu *gpu)
{
    for (int i = 0; i < gpu->n_processes && i < LSI_GPU_PROCESSES; i++) {
        if (!gpu->processes[i].graphics) {
            return true;
        }
    }
    return false;
}

static void weigh(const lsi_inventory *inventory, const int *candidates, set *s)
{
    s->in_use = s->worst = s->sum = s->ranks = 0;
    for (int i = 0; i < s->n; i++) {
        s->ranks += s->members[i];
        s->in_use += is_in_use(&inventory->gpus[candidates[s->members[i]]]);
        for (int k = 0; k < i; k++) {
            int link = inventory->link[candidates[s->members[i]]][candidates[s->members[k]]];

            s->worst = link > s->worst ? link : s->worst;
            s->sum += link;
        }
    }
}

static bool is_better(const set *a, const set *b)
{
    if (a->in_use != b->in_use) {
        return a->in_use < b->in_use;
    }
    if (a->worst != b->worst) {
        return a->worst < b->worst;
    }
    return a->sum != b->sum ? a->sum < b->sum : a->ranks < b->ranks;
}

static bool next_combination(set *s, int m)
{
    for (int i = s->n - 1; i >= 0; i--) {
        if (s->members[i] < m - s->n + i) {
            s->members[i]++;
            for (int k = i + 1; k < s->n; k++) {
                s->members[k] = s->members[k - 1] + 1;
            }
            return true;
        }
    }
    return false;
}

/* m over n, or the limit where it is more. */
static long combinations(int m, int n, long limit)
{
    long value = 1;

    n = n < m - n ? n : m - n;
    for (int i = 1; i <= n; i++) {
        value = value * (m - n + i) / i;
        if (value >= limit) {
            return limit;
        }
    }
    return value;
}

static bool contains(const set *s, int member)
{
    for (int i = 0; i < s->n; i++) {
        if (s->members[i] == member) {
            return true;
        }
    }
    return false;
}

/* From one candidate on, the one that connects best to those there are, until there are n. */
static void grow(const lsi_inventory *inventory, const int *candidates, int m, int n, int seed, set *out)
{
    *out = (set){.n = 1, .members = {seed}};
    while (out->n < n) {
        set best = {0};

        for (int i = 0; i < m; i++) {
            set more = *out;

            if (contains(out, i)) {
                continue;
            }
            more.members[more.n++] = i;
            weigh(inventory, candidates, &more);
            if (best.n == 0 || is_better(&more, &best)) {
                best = more;
            }
        }
        *out = best;
    }
}

/* All sets where they can be walked; on hosts of very many GPUs, one grown from each. */
static set best_set(const lsi_inventory *inventory, const int *candidates, int m, int n)
{
    const long most_sets = 20000;
    set best, s = {.n = n};

    for (int i = 0; i < n; i++) {
        s.members[i] = i;
    }
    weigh(inventory, candidates, &s);
    best = s;
    if (combinations(m, n, most_sets) < most_sets) {
        while (next_combination(&s, m)) {
            weigh(inventory, candidates, &s);
            best = is_better(&s, &best) ? s : best;
        }
        return best;
    }
    for (int seed = 0; seed < m; seed++) {
        grow(inventory, candidates, m, n, seed, &s);
        weigh(inventory, candidates, &s);
        best = is_better(&s, &best) ? s : best;
    }
    return best;
}

bool lsi_pick_connected(const lsi_inventory *inventory, const int *candidates, int m, int n, lsi_links links, int *out)
{
    set s = {.n = n};

    for (int i = 0; i < n; i++) {
        s.members[i] = i;
    }
    if (links != LSI_LINKS_IGNORE && n > 1) {
        s = best_set(inventory, candidates, m, n);
    }
    weigh(inventory, candidates, &s);
    for (int i = 0; i < n; i++) {
        out[i] = candidates[s.members[i]];
    }
    return links != LSI_LINKS_REQUIRE || n == 1 || s.worst == LSI_LINK_NVLINK;
}

/* ---- each process one that it sees ----------------------------------------------------------------------------------
 */

typedef struct matching {
    const int *candidates;
    const uint64_t *sees;
    int n;
    int *has;    /* candidate of each process, by place in the list; UNKNOWN: none */
    bool *tried; /* processes */
} matching;

/* Finds a process for the candidate, moving others to another of theirs where that makes room: augmenting paths. */
static bool place_candidate(matching *m, int candidate)
{
    for (int i = 0; i < m->n; i++) {
        if ((m->sees[i] >> m->candidates[candidate] & 1) == 0 || m->tried[i]) {
            continue;
        }
        m->tried[i] = true;
        if (m->has[i] == LSI_GPU_UNKNOWN || place_candidate(m, m->has[i])) {
            m->has[i] = candidate;
            return true;
        }
    }
    return false;
}

int lsi_pick_matching(const int *candidates, int m, const uint64_t *sees, int n, int *out)
{
    bool tried[LSI_GPU_MAX];
    int matched = 0;
    matching state = {candidates, sees, n, out, tried};

    for (int i = 0; i < n; i++) {
        out[i] = LSI_GPU_UNKNOWN;
    }
    for (int c = 0; c < m && matched < n; c++) {
        memset(tried, 0, sizeof tried);
        matched += place_candidate(&state, c);
    }
    for (int i = 0; i < n; i++) {
        out[i] = out[i] == LSI_GPU_UNKNOWN ? LSI_GPU_UNKNOWN : candidates[out[i]];
    }
    return matched;
}
