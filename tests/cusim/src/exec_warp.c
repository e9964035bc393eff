/* Warp operations. A meeting is keyed by its mask; the last lane to arrive computes for all, so nothing is buffered
 * twice. Only __syncwarp orders memory: shuffles and votes do not, and ThreadSanitizer is told so. */
#include "exec.h"
#include "exec_tsan.h"

#include <stdio.h>
#include <string.h>

/* Seen neither by ThreadSanitizer nor turned into a call of memcpy. */
static void quiet_copy(void *target, const void *source, unsigned bytes)
{
    volatile unsigned char *to = target;
    const volatile unsigned char *from = source;
    for (unsigned i = 0; i < bytes; i++)
        to[i] = from[i];
}

static uint64_t reduce(const warp_meeting *m, const cusim_thread_record *lanes)
{
    bool is_and = m->kind == CUSIM_WARP_ALL || m->kind == CUSIM_WARP_BIT_AND;
    uint64_t total = is_and ? ~0ull : 0;
    bool first = true;
    for (int i = 0; i < CUSIM_WARP; i++) {
        if ((m->arrived >> i & 1) == 0)
            continue;
        unsigned value = (unsigned)lanes[i].in[0];
        switch (m->kind) {
        case CUSIM_WARP_BALLOT:
            total |= (uint64_t)(value != 0) << i;
            break;
        case CUSIM_WARP_ALL:
            total = total != 0 && value != 0;
            break;
        case CUSIM_WARP_ANY:
            total = total != 0 || value != 0;
            break;
        case CUSIM_WARP_ADD:
            total = (unsigned)(total + value);
            break;
        case CUSIM_WARP_BIT_OR:
            total |= value;
            break;
        case CUSIM_WARP_BIT_AND:
            total &= value;
            break;
        case CUSIM_WARP_BIT_XOR:
            total ^= value;
            break;
        case CUSIM_WARP_MAX:
            total = first || value > total ? value : total;
            break;
        case CUSIM_WARP_MIN:
            total = first || value < total ? value : total;
            break;
        case CUSIM_WARP_MAX_SIGNED:
            total = first || (int)value > (int)total ? value : total;
            break;
        case CUSIM_WARP_MIN_SIGNED:
            total = first || (int)value < (int)total ? value : total;
            break;
        default:
            break;
        }
        first = false;
    }
    return total;
}

/* The lane a shuffle reads from. */
static int shuffle_source(cusim_warp_kind kind, int lane, int argument, int width)
{
    int base = lane & ~(width - 1), inside = lane & (width - 1);
    switch (kind) {
    case CUSIM_WARP_INDEX:
        return base + (argument & (width - 1));
    case CUSIM_WARP_UP:
        return inside - argument < 0 ? lane : lane - argument;
    case CUSIM_WARP_DOWN:
        return inside + argument >= width ? lane : lane + argument;
    default:
        return (lane ^ argument) >= base + width ? lane : lane ^ argument;
    }
}

static unsigned match(const warp_meeting *m, const cusim_thread_record *lanes, int lane)
{
    unsigned equal = 0;
    for (int i = 0; i < CUSIM_WARP; i++)
        if ((m->arrived >> i & 1) != 0 && lanes[i].in[0] == lanes[lane].in[0])
            equal |= 1u << i;
    return equal;
}

static void give_results(const warp_meeting *m, cusim_thread_record *lanes)
{
    uint64_t reduced = reduce(m, lanes);
    for (int i = 0; i < CUSIM_WARP; i++) {
        if ((m->arrived >> i & 1) == 0)
            continue;
        cusim_thread_record *thread = &lanes[i];
        if (m->kind >= CUSIM_WARP_INDEX && m->kind <= CUSIM_WARP_XOR) {
            int source = shuffle_source(m->kind, i, thread->argument, thread->width);
            bool there = (m->arrived >> source & 1) != 0; /* else undefined on the device: all ones */
            thread->result[0] = there ? lanes[source].in[0] : ~0ull;
            thread->result[1] = there ? lanes[source].in[1] : ~0ull;
        } else if (m->kind == CUSIM_WARP_GATHER) {
            for (int k = 0; k < CUSIM_WARP; k++)
                ((const void **)thread->out)[k] = (m->arrived >> k & 1) != 0 ? lanes[k].gather_in : NULL;
        } else {
            thread->result[0] = m->kind == CUSIM_WARP_MATCH ? match(m, lanes, i) : reduced;
        }
    }
    for (int i = 0; i < CUSIM_WARP; i++)
        if ((m->arrived >> i & 1) != 0 && lanes[i].state == THREAD_IN_WARP)
            cusim_exec_make_ready(&lanes[i]);
}

static void finish(cusim_warp_record *warp, int index)
{
    warp_meeting meeting = warp->meetings[index];
    warp->meetings[index] = warp->meetings[--warp->n_meetings];
    give_results(&meeting, &cusim_exec.threads[(warp - cusim_exec.warps) * CUSIM_WARP]);
}

/* The meeting this lane comes to, opened if it is the first. */
static int join(cusim_warp_record *warp, cusim_warp_kind kind, unsigned mask, unsigned me, const char *file, int line)
{
    int i = 0;
    while (i < warp->n_meetings && (warp->meetings[i].mask & me) == 0)
        i++;
    if (i == warp->n_meetings) {
        warp->meetings[warp->n_meetings++] = (warp_meeting){.mask = mask, .kind = kind, .file = file, .line = line};
    } else {
        const warp_meeting *m = &warp->meetings[i];
        if (m->mask != mask || m->kind != kind || (m->arrived & me) != 0)
            cusim_exec_fail(
                file, line,
                "lanes of one warp meet in different operations (others: line %d, mask %08x; mask here %08x)", m->line,
                m->mask, mask);
    }
    warp->meetings[i].arrived |= me;
    return i;
}

void cusim_warp(cusim_warp_kind kind, unsigned mask, const void *in, void *out, unsigned bytes, int argument, int width,
                const char *file, int line)
{
    cusim_thread_record *self = cusim_exec_self();
    cusim_warp_record *warp = &cusim_exec.warps[self->view.warp];
    unsigned me = 1u << self->view.lane;
    if ((mask & me) == 0)
        cusim_exec_fail(file, line, "the mask of a warp operation leaves out its caller");
    if ((mask & ~warp->live) != 0)
        cusim_exec_fail(file, line, "the mask of a warp operation names lanes that have ended");
    if (width < 1 || width > CUSIM_WARP || (width & (width - 1)) != 0)
        cusim_exec_fail(file, line, "the width of a shuffle is %d, no power of two up to 32", width);
    self->argument = argument;
    self->width = width;
    self->out = out;
    self->gather_in = in;
    self->file = file;
    self->line = line;
    bool copies = kind != CUSIM_WARP_GATHER && kind != CUSIM_WARP_SYNC;
    if (copies) {
        if (bytes > sizeof self->in)
            cusim_exec_fail(file, line, "shuffle of more than 16 bytes");
        self->in[0] = self->in[1] = 0;
        quiet_copy(self->in, in, bytes);
    }
    int index = join(warp, kind, mask, me, file, line);
    bool complete = warp->meetings[index].arrived == mask;
    if (complete && kind != CUSIM_WARP_SYNC) {
        finish(warp, index);
    } else {
        self->state = THREAD_IN_WARP;
        CUSIM_TS(if (kind == CUSIM_WARP_SYNC) __tsan_release(cusim_sync.warp[self->view.warp]);)
        if (complete)
            finish(warp, index);
        cusim_exec_pause(self);
        CUSIM_TS(if (kind == CUSIM_WARP_SYNC) __tsan_acquire(cusim_sync.warp[self->view.warp]);)
    }
    if (copies)
        quiet_copy(out, self->result, bytes);
}

/* The weakest answer the device may give. */
unsigned cusim_active_mask(void)
{
    return 1u << cusim_exec_self()->view.lane;
}

void cusim_warp_thread_ended(cusim_thread_record *thread)
{
    cusim_warp_record *warp = &cusim_exec.warps[thread->view.warp];
    warp->live &= ~(1u << thread->view.lane);
    for (int i = 0; i < warp->n_meetings; i++)
        if ((warp->meetings[i].mask >> thread->view.lane & 1) != 0)
            cusim_exec_fail(warp->meetings[i].file, warp->meetings[i].line,
                            "the thread ends although the mask of a warp operation of its warp names it");
}
