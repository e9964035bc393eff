#include "job/job.h"

#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/proc.h"
#include "base/text.h"
#include "base/thread.h"
#include "job/job_build.h"
#include "job/watchdog.h"

/* ---- nodes ------------------------------------------------------------------------------------------------ */

void lsi_job_host(char out[LSI_JOB_HOST_MAX])
{
    if (gethostname(out, LSI_JOB_HOST_MAX) != 0 || out[0] == '\0') {
        snprintf(out, LSI_JOB_HOST_MAX, "localhost");
    }
    out[LSI_JOB_HOST_MAX - 1] = '\0';
}

/* The host name alone is not enough: machines made from one image may share it. Neither is the boot id: containers of
 * one machine share that, and not their memory. */
static ls_status identify_node(const char *host, lsi_node_id *out)
{
    char boot_id[LSI_PROC_BOOT_ID];
    lsi_text identity = {0};

    *out = (lsi_node_id){{0}, ""};
    snprintf(out->host, sizeof out->host, "%s", host);
    lsi_proc_boot_id(boot_id);
    lsi_text_append(&identity, "%s\n%s", host, boot_id);
    ls_status status = lsi_text_status(&identity);
    if (status == LS_OK) {
        lsi_hash128(identity.data, identity.length, out->hash);
    }
    lsi_text_free(&identity);
    return status;
}

ls_status lsi_job_map_nodes(lsi_job *job, const lsi_node_id *node)
{
    void *memory = NULL;

    LS_TRY(lsi_job_agree(job, lsi_memory_alloc((size_t)job->world * sizeof *node, "the map of nodes", &memory)));
    lsi_node_id *nodes = memory;
    ls_status status = lsi_job_all_gather(job, node, sizeof *node, nodes);
    if (status != LS_OK) {
        lsi_job_abort(job, status);
    }
    job->n_nodes = 0;
    for (int r = 0; r < job->world; r++) {
        int first = 0;
        while (memcmp(&nodes[first], &nodes[r], sizeof *nodes) != 0) {
            first++;
        }
        memcpy(job->hosts[r], nodes[r].host, sizeof nodes[r].host);
        job->node[r] = first < r ? job->node[first] : job->n_nodes++;
    }
    lsi_memory_free(nodes);

    job->local_rank = job->n_local = 0;
    for (int r = 0; r < job->world; r++) {
        if (job->node[r] == job->node[job->rank]) {
            job->local_rank += r < job->rank;
            job->n_local++;
        }
    }
    return LS_OK;
}

/* ---- life ------------------------------------------------------------------------------------------------- */

ls_status lsi_job_create(int rank, int world, const char *host, lsi_job **out, lsi_node_id *node)
{
    ls_status status;
    void *memory;
    char *name;

    LS_TRY(lsi_memory_alloc(sizeof(lsi_job), "the job", &memory));
    lsi_job *job = memory;
    job->rank = rank;
    job->world = world;
    LS_TRY_GOTO(status, failed, lsi_memory_strdup(host, &name));
    job->host = name;
    LS_TRY_GOTO(status, failed, lsi_memory_alloc((size_t)world * sizeof *job->node, "the map of nodes", &memory));
    job->node = memory;
    LS_TRY_GOTO(status, failed, lsi_memory_alloc((size_t)world * sizeof *job->hosts, "names of hosts", &memory));
    job->hosts = memory;
    LS_TRY_GOTO(status, failed, identify_node(host, node));
    *out = job;
    return LS_OK;
failed:
    lsi_job_destroy(&job);
    return status;
}

void lsi_job_destroy(lsi_job **job)
{
    if (*job != NULL) {
        lsi_memory_free((void *)(uintptr_t)(*job)->host);
        lsi_memory_free((*job)->node);
        lsi_memory_free((*job)->hosts);
        lsi_memory_free(*job);
        *job = NULL;
    }
}

/* ---- leaving ---------------------------------------------------------------------------------------------- */

enum { LAST_RESORT_SECONDS = 5, GIVEN_UP_SECONDS = 3 };

/* One thread may agree on a failure while another aborts because of its consequence, or the other way round. */
static struct {
    pthread_mutex_t mutex;
    bool told, aborting;
} end = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static void print_failure(ls_status status)
{
    const char *message = ls_failure_message();

    lsi_log_error("%s", message[0] != '\0' ? message : ls_status_text(status));
    end.told = true;
}

void lsi_job_print_failure(ls_status status)
{
    pthread_mutex_lock(&end.mutex);
    if (!end.aborting) {
        print_failure(status);
    }
    pthread_mutex_unlock(&end.mutex);
}

/* Nothing where the failure that this one follows from has been told. */
static void print_last_failure(ls_status status)
{
    pthread_mutex_lock(&end.mutex);
    end.aborting = true;
    if (!end.told) {
        print_failure(status);
    }
    pthread_mutex_unlock(&end.mutex);
}

/* MPI_Abort needs locks that a thread which hangs may hold. */
_Noreturn static void *leave_late(void *exit_code)
{
    sleep(LAST_RESORT_SECONDS);
    _exit((int)(intptr_t)exit_code);
}

_Noreturn void lsi_job_abort(lsi_job *job, ls_status why)
{
    static atomic_flag leaving = ATOMIC_FLAG_INIT;
    int exit_code = ls_status_exit_code(why);
    void *argument = (void *)(intptr_t)exit_code;
    pthread_t thread;

    if (atomic_flag_test_and_set(&leaving)) {
        leave_late(argument);
    }
    if (job != NULL && lsi_watchdog_was_away(job->watchdog)) {
        sleep(GIVEN_UP_SECONDS);        /* for the end, if the others have said why: what fails here follows from it */
    }
    print_last_failure(why);
    if (ftrylockfile(stdout) == 0) {
        fflush_unlocked(stdout);
        funlockfile(stdout);
    }
    if (lsi_thread_start(&thread, "last resort", leave_late, argument) == LS_OK) {
        pthread_detach(thread);
    }
    lsi_job_end_processes(exit_code);
    _exit(exit_code);
}
