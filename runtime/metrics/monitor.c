#include "metrics/monitor.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/thread.h"
#include "device/lease_fault.h"
#include "device/xid.h"
#include "job/reports.h"
#include "metrics/endpoint.h"

static const double wait_seconds = 0.1;

/* What each process tells all others at the start. */
typedef struct card {
    lsi_gpu_label label;
    int64_t pid;
    int32_t has_gpu;
} card;

struct lsi_monitor {
    lsi_job *job;
    double interval;
    int port;
    char *textfile, *leases;

    /* GPUs of the job, in the order of ranks; known from the start. */
    int n;
    lsi_gpu_label *labels;
    int *node;                  /* of each */
    int *local, n_local;        /* those of this host: indices */
    int64_t *pids;              /* of this host's processes */
    int n_pids;
    lsi_reports *reports;       /* NULL: one host, or no GPU on the others */
    int *senders, n_senders;
    int n_report;               /* GPUs in a report: most of any host */

    /* The thread's own. */
    lsi_inventory *inventory;
    lsi_xid_watch *xids;        /* NULL: the driver does not tell */
    int *xid;                   /* the last of each of this host's GPUs; 0: none */
    lsi_gpu_numbers *report;
    bool told_of_textfile;

    pthread_t thread;
    bool runs;
    pthread_mutex_t lock;       /* what follows */
    pthread_cond_t wake;
    bool closing;
    lsi_gpu_numbers *numbers;   /* n */
    lsi_trainer_numbers trainer;
    double *joules;             /* n: since the samples were taken last */
    double *sampled;            /* n: when */
    int64_t n_samples;

    /* The main thread's. */
    int64_t n_taken;
    double taken;
    lsi_gpu_numbers *shown;     /* n: what was taken last */
};

/* ---- samples --------------------------------------------------------------------------------------------------- */

/* By the counter where there is one, else by what it draws. lock is held. */
static void add_energy(lsi_monitor *m, int i, const lsi_gpu_numbers *new, double now)
{
    const lsi_gpu_numbers *old = &m->numbers[i];
    double counted = (new->value[LSI_GPU_GAUGE_energy] - old->value[LSI_GPU_GAUGE_energy]) * 1e-3;

    if (old->valid) {
        m->joules[i] +=
            isnan(counted) ? new->value[LSI_GPU_GAUGE_power] * (now - m->sampled[i]) : counted > 0 ? counted : 0;
    }
    m->sampled[i] = now;
}

/* The GPUs of `node` from a list of theirs. */
static void take_in_node(lsi_monitor *m, int node, const lsi_gpu_numbers *list)
{
    double now = lsi_clock_seconds();

    pthread_mutex_lock(&m->lock);
    for (int i = 0, at = 0; i < m->n; i++) {
        if (m->node[i] == node) {
            if (list[at].valid) {
                add_energy(m, i, &list[at], now);
                m->numbers[i] = list[at];
            }
            at++;
        }
    }
    m->n_samples++;
    pthread_mutex_unlock(&m->lock);
}

/* In the log of its host at once: the job may not live to tell it in another way. */
static void tell_xid(const lsi_monitor *m, const lsi_gpu_label *label, int place, int number)
{
    lsi_xid xid = lsi_xid_find(number);
    const char *uuid = m->inventory->gpus[lsi_inventory_whole(m->inventory, place)].uuid;
    bool noted = xid.fatal && m->leases != NULL && uuid[0] != '\0';

    if (noted && lsi_lease_fault_put(m->leases, uuid, number) != LS_OK) {
        lsi_log_warn("device.leases: %s", ls_failure_message());
        noted = false;
    }
    lsi_log_warn("host %s: the GPU of rank %d (%s, %s) reports Xid %d: %s; %s%s", label->host, label->rank, label->name,
                 label->uuid, number, xid.words, xid.advice, noted ? "; until then auto leaves it" : "");
}

/* Waits at most so long. True: some GPU told of one. */
static bool take_xid(lsi_monitor *m, double seconds)
{
    int place, number;

    if (m->xids == NULL || !lsi_xid_watch_next(m->xids, seconds, &place, &number)) {
        return false;
    }
    for (int i = 0; i < m->n_local; i++) {
        const lsi_gpu_label *label = &m->labels[m->local[i]];

        if (lsi_inventory_find_uuid(m->inventory, label->uuid) == place) {
            m->xid[i] = number;
            tell_xid(m, label, place, number);
        }
    }
    return true;
}

static void sample(lsi_monitor *m)
{
    while (take_xid(m, 0)) {
    }
    memset(m->report, 0, (size_t)m->n_report * sizeof *m->report);
    for (int i = 0; i < m->n_local && m->inventory != NULL; i++) {
        int place = lsi_inventory_find_uuid(m->inventory, m->labels[m->local[i]].uuid);

        if (place != LSI_GPU_UNKNOWN) {
            lsi_inventory_refresh_entry(m->inventory, place);
            lsi_gauges_of_gpu(m->inventory, place, m->pids, m->n_pids, &m->report[i]);
            m->report[i].value[LSI_GPU_GAUGE_xid] = m->xids != NULL ? m->xid[i] : (double)NAN;
        }
    }
    if (m->n_local > 0) {
        take_in_node(m, m->job->node[m->job->rank], m->report);
    }
}

/* To rank 0, or there from the other hosts. */
static void exchange(lsi_monitor *m)
{
    int sender;

    if (m->reports == NULL) {
        return;
    }
    if (m->job->rank != 0) {
        (void)lsi_reports_send(m->reports, m->report); /* a late one is dropped */
        return;
    }
    while (lsi_reports_receive(m->reports, &sender, m->report)) {
        take_in_node(m, m->job->node[m->senders[sender]], m->report);
    }
}

/* ---- what is shown --------------------------------------------------------------------------------------------- */

/* This host's GPUs, and training: each host is scraped by itself. */
static void append_page(void *argument, lsi_text *out)
{
    lsi_monitor *m = argument;

    pthread_mutex_lock(&m->lock);
    lsi_gauges_append_trainer(&m->trainer, m->job->host, m->job->rank, out);
    lsi_gauges_append_gpus(m->labels, m->numbers, m->local, m->n_local, out);
    pthread_mutex_unlock(&m->lock);
}

static void write_textfile(lsi_monitor *m)
{
    lsi_text page = {0};

    if (m->textfile == NULL) {
        return;
    }
    append_page(m, &page);
    ls_status status = lsi_text_status(&page);
    if (status == LS_OK) {
        status = lsi_file_replace(m->textfile, page.data, page.length);
    }
    if (status != LS_OK && !m->told_of_textfile) {
        lsi_log_warn("monitor.textfile: %s; training goes on", ls_failure_message());
        m->told_of_textfile = true;
    }
    lsi_text_free(&page);
}

/* ---- the thread ------------------------------------------------------------------------------------------------ */

static void watch_xids(lsi_monitor *m)
{
    int places[LSI_GPU_MAX], n = 0;

    for (int i = 0; i < m->n_local && n < LSI_GPU_MAX; i++) {
        int place = lsi_inventory_find_uuid(m->inventory, m->labels[m->local[i]].uuid);

        if (place != LSI_GPU_UNKNOWN) {
            places[n++] = place;
        }
    }
    if (lsi_xid_watch_open(m->inventory, places, n, &m->xids) != LS_OK) {
        lsi_log_warn("Xids of GPUs are not watched: %s", ls_failure_message());
    }
}

static void open_inventory(lsi_monitor *m)
{
    if (m->n_local == 0) {
        return;
    }
    if (lsi_inventory_open(&m->inventory) != LS_OK) {
        lsi_log_warn("GPUs are not watched: %s", ls_failure_message());
    } else if (m->inventory->nvml_trouble[0] != '\0') {
        lsi_log_warn("GPUs are not watched: %s", m->inventory->nvml_trouble);
        lsi_inventory_close(&m->inventory);
    } else {
        watch_xids(m);
    }
}

static bool is_closing(lsi_monitor *m)
{
    pthread_mutex_lock(&m->lock);
    bool closing = m->closing;
    pthread_mutex_unlock(&m->lock);
    return closing;
}

static double seconds_until(const struct timespec *due)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)(due->tv_sec - now.tv_sec) + (double)(due->tv_nsec - now.tv_nsec) * 1e-9;
}

/* Until the next sample is due, or a GPU tells of an Xid; false: the monitor closes. NVML's wait cannot be ended by
 * another thread, so it is a short one. */
static bool pause_until(lsi_monitor *m, struct timespec *due)
{
    while (m->xids != NULL && !is_closing(m)) {
        double left = seconds_until(due);

        if (left <= 0 || take_xid(m, left < wait_seconds ? left : wait_seconds)) {
            return true;
        }
    }
    pthread_mutex_lock(&m->lock);
    while (!m->closing && pthread_cond_timedwait(&m->wake, &m->lock, due) != ETIMEDOUT) {
    }
    bool goes_on = !m->closing;
    pthread_mutex_unlock(&m->lock);
    return goes_on;
}

static void add_seconds(struct timespec *time, double seconds)
{
    time->tv_sec += (time_t)seconds;
    time->tv_nsec += (long)((seconds - floor(seconds)) * 1e9);
    if (time->tv_nsec >= 1000000000) {
        time->tv_nsec -= 1000000000;
        time->tv_sec++;
    }
}

static void *work(void *argument)
{
    lsi_monitor *m = argument;
    lsi_endpoint *endpoint = NULL;
    struct timespec due;
    char why[96];
    bool goes_on;

    open_inventory(m);
    sample(m); /* before anybody asks */
    if (m->port != 0) {
        lsi_endpoint_open(m->port, append_page, m, why, &endpoint);
        if (endpoint == NULL) {
            lsi_log_warn("monitor.port = %d: %s; training goes on without", m->port, why);
        }
    }
    do {
        exchange(m);
        write_textfile(m);
        clock_gettime(CLOCK_MONOTONIC, &due);
        add_seconds(&due, m->interval);
        goes_on = pause_until(m, &due);
        sample(m);
    } while (goes_on);
    exchange(m);
    write_textfile(m); /* how it ended stays */
    lsi_endpoint_close(&endpoint);
    lsi_xid_watch_close(&m->xids);
    lsi_inventory_close(&m->inventory);
    return NULL;
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

static ls_status gather_cards(const lsi_monitor_options *o, card **out)
{
    card mine = {.label.rank = o->job->rank, .pid = (int64_t)getpid(), .has_gpu = o->gpu != NULL};
    void *memory;

    if (o->gpu != NULL) {
        mine.label.index = o->gpu->nvml_index;
        memcpy(mine.label.uuid, o->gpu->uuid, sizeof mine.label.uuid);
        memcpy(mine.label.name, o->gpu->name, sizeof mine.label.name);
        snprintf(mine.label.host, sizeof mine.label.host, "%s", o->job->host);
    }
    LS_TRY(lsi_job_agree(o->job, lsi_memory_alloc((size_t)o->job->world * sizeof mine, "the monitor", &memory)));
    ls_status status = lsi_job_all_gather(o->job, &mine, sizeof mine, memory);
    if (status != LS_OK) {
        lsi_memory_free(memory);
        return status;
    }
    *out = memory;
    return LS_OK;
}

/* One block of memory for all arrays: doubles and longs first. */
static ls_status allocate(lsi_monitor *m, int world)
{
    size_t w = (size_t)world;
    size_t bytes = w * (2 * sizeof(double) + sizeof(int64_t) + 3 * sizeof(lsi_gpu_numbers) + sizeof(lsi_gpu_label) +
                        4 * sizeof(int));
    void *memory;

    LS_TRY(lsi_memory_alloc(bytes, "the monitor", &memory));
    m->joules = memory;
    m->sampled = m->joules + w;
    m->pids = (int64_t *)(void *)(m->sampled + w);
    m->numbers = (lsi_gpu_numbers *)(void *)(m->pids + w);
    m->shown = m->numbers + w;
    m->report = m->shown + w;
    m->labels = (lsi_gpu_label *)(void *)(m->report + w);
    m->node = (int *)(void *)(m->labels + w);
    m->senders = m->node + w;
    m->local = m->senders + w;
    m->xid = m->local + w;
    return LS_OK;
}

/* Who watches what, the same on all ranks. */
static void lay_out(lsi_monitor *m, const card *cards)
{
    const lsi_job *job = m->job;

    for (int node = 0; node < job->n_nodes; node++) {
        int n = 0, leader = -1;

        for (int r = 0; r < job->world; r++) {
            if (job->node[r] == node) {
                leader = leader < 0 ? r : leader;
                n += cards[r].has_gpu;
            }
        }
        if (n > 0 && leader != 0) {
            m->senders[m->n_senders++] = leader;
        }
        m->n_report = n > m->n_report ? n : m->n_report;
    }
    for (int r = 0; r < job->world; r++) {
        if (job->node[r] == job->node[job->rank]) {
            m->pids[m->n_pids++] = cards[r].pid;
        }
        if (cards[r].has_gpu) {
            if (job->node[r] == job->node[job->rank]) {
                m->local[m->n_local++] = m->n;
            }
            m->labels[m->n] = cards[r].label;
            m->node[m->n++] = job->node[r];
        }
    }
}

static void destroy(lsi_monitor *m)
{
    if (m != NULL) {
        lsi_memory_free(m->joules);
        lsi_memory_free(m->textfile);
        lsi_memory_free(m->leases);
        lsi_memory_free(m);
    }
}

static ls_status create(const lsi_monitor_options *o, const card *cards, lsi_monitor **out)
{
    lsi_monitor *m;

    LS_TRY(lsi_memory_alloc(sizeof *m, "the monitor", (void **)&m));
    *m = (lsi_monitor){.job = o->job, .interval = o->interval, .port = o->port, .taken = lsi_clock_seconds()};
    ls_status status = allocate(m, o->job->world);
    if (status == LS_OK && o->textfile[0] != '\0') {
        status = lsi_memory_strdup(o->textfile, &m->textfile);
    }
    if (status == LS_OK && o->leases[0] != '\0') {
        status = lsi_memory_strdup(o->leases, &m->leases);
    }
    if (status != LS_OK) {
        destroy(m);
        return status;
    }
    lay_out(m, cards);
    *out = m;
    return LS_OK;
}

static void start(lsi_monitor *m)
{
    pthread_condattr_t attributes;

    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&m->wake, &attributes);
    pthread_condattr_destroy(&attributes);
    pthread_mutex_init(&m->lock, NULL);
    m->runs = lsi_thread_start(&m->thread, "monitor", work, m) == LS_OK;
    if (!m->runs) {
        lsi_log_warn("nothing is monitored: %s", ls_failure_message());
    }
}

ls_status lsi_monitor_open(const lsi_monitor_options *o, lsi_monitor **out)
{
    lsi_monitor *m = NULL;
    card *cards = NULL;

    *out = NULL;
    if (o->interval <= 0) {
        return LS_OK;
    }
    LS_TRY(gather_cards(o, &cards));
    ls_status status = lsi_job_agree(o->job, create(o, cards, &m));
    lsi_memory_free(cards);
    if (status == LS_OK) {
        status = lsi_reports_open(o->job, m->senders, m->n_senders,
                                  (size_t)m->n_report * sizeof(lsi_gpu_numbers), &m->reports);
    }
    /* One thread for each host, where there is something to do. */
    bool watches = status == LS_OK && o->job->local_rank == 0 && (m->n > 0 || m->port != 0 || m->textfile != NULL);
    if (!watches) {
        destroy(m);
        return status;
    }
    start(m);
    *out = m;
    return LS_OK;
}

void lsi_monitor_close(lsi_monitor **monitor)
{
    lsi_monitor *m = *monitor;

    if (m == NULL) {
        return;
    }
    pthread_mutex_lock(&m->lock);
    m->closing = true;
    pthread_cond_signal(&m->wake);
    pthread_mutex_unlock(&m->lock);
    if (m->runs) {
        pthread_join(m->thread, NULL);
    }
    lsi_reports_close(&m->reports);
    pthread_cond_destroy(&m->wake);
    pthread_mutex_destroy(&m->lock);
    destroy(m);
    *monitor = NULL;
}

/* ---- the main thread --------------------------------------------------------------------------------------------- */

void lsi_monitor_tell(lsi_monitor *m, const lsi_trainer_numbers *numbers)
{
    if (m != NULL) {
        pthread_mutex_lock(&m->lock);
        m->trainer = *numbers;
        pthread_mutex_unlock(&m->lock);
    }
}

bool lsi_monitor_take(lsi_monitor *m, lsi_monitor_samples *out)
{
    double now = lsi_clock_seconds();

    if (m == NULL || m->n == 0) {
        return false;
    }
    pthread_mutex_lock(&m->lock);
    bool is_new = m->n_samples > m->n_taken;
    if (is_new) {
        *out = (lsi_monitor_samples){
            .n = m->n, .labels = m->labels, .numbers = m->shown, .seconds = now - m->taken};
        for (int i = 0; i < m->n; i++) {
            m->shown[i] = m->numbers[i];
            out->joules += m->numbers[i].valid ? m->joules[i] : (double)NAN;
            m->joules[i] = 0;
        }
        m->n_taken = m->n_samples;
        m->taken = now;
    }
    pthread_mutex_unlock(&m->lock);
    return is_new;
}
