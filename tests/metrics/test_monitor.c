/* RUN: gpus np=1,2,4 label=tsan */
/* The monitor on a described machine: numbers of every GPU of the job at rank 0, also of other hosts (which are made up
 * here: ranks in turn), energy, strangers, what is not told, and the text for Prometheus. */
#include "support/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"
#include "device/lease_fault.h"
#include "metrics/monitor.h"

static lsi_job *job;
static char path[512];

/* GPU r is rank r's; the last one is idle and nobody's. Rank 0's process and a stranger are on GPU 0. All but that tell
 * of an Xid. */
static void describe_machine(void)
{
    char machine[600];

    snprintf(machine, sizeof machine, "%s.machine", path);
    if (job->rank == 0) {
        FILE *file = fopen(machine, "w");

        assert_non_null(file);
        fprintf(file, "driver 580.65.06\ncuda 13000\n");
        for (int r = 0; r <= job->world; r++) {
            fprintf(file,
                    "gpu name=\"NVIDIA \\A100\" cc=8.0 mem=40960 used=%d util=%d memutil=7 temp=%d power=%d "
                    "clock=1410 throttle=%d xid=%d bus=0000:%02x:00.0 uuid=GPU-a%07x-0000-0000-0000-000000000000\n",
                    1000 + r, 10 * r, 40 + r, 100 + r, r == 1 ? 0x40 : 0, r == 0 ? 0 : r == 1 ? 48 : 94,
                    0x10 + r, (unsigned)r);
        }
        fprintf(file, "proc gpu=0 pid=%d mem=100\nproc gpu=0 pid=4194000 mem=100\n", (int)getpid());
        fprintf(file, "proc gpu=0 pid=4194001 mem=10 graphics=1\n");
        fclose(file);
    }
    CHECK_OK(lsi_job_barrier(job));
    setenv("CUSIM_MACHINE", machine, 1);
    unsetenv("CUDA_VISIBLE_DEVICES");
}

/* Hosts of ranks 0 2 ..., 1 3 ...: not in order, and each with its own first rank. */
static void pretend_hosts(int n)
{
    job->n_nodes = n < job->world ? n : job->world;
    job->local_rank = job->rank / n;
    for (int r = 0; r < job->world; r++) {
        job->node[r] = r % n;
    }
}

static lsi_gpu own_gpu(void)
{
    lsi_inventory *inventory;
    char uuid[LSI_GPU_UUID];

    CHECK_OK(lsi_inventory_open(&inventory));
    snprintf(uuid, sizeof uuid, "GPU-a%07x-0000-0000-0000-000000000000", (unsigned)job->rank);
    int place = lsi_inventory_find_uuid(inventory, uuid);
    assert_int_not_equal(place, LSI_GPU_UNKNOWN);
    lsi_gpu gpu = inventory->gpus[place];
    lsi_inventory_close(&inventory);
    return gpu;
}

static bool all_valid(const lsi_monitor_samples *s)
{
    for (int i = 0; i < s->n; i++) {
        if (!s->numbers[i].valid) {
            return false;
        }
    }
    return true;
}

/* Samples of all GPUs, the energy of some time. */
static void check_samples(lsi_monitor *monitor)
{
    double end = lsi_clock_seconds() + 60, joules = 0, seconds = 0;
    lsi_monitor_samples s = {0};

    while ((seconds < 0.3 || !all_valid(&s)) && lsi_clock_seconds() < end) {
        if (lsi_monitor_take(monitor, &s)) {
            joules += isnan(s.joules) ? 0 : s.joules;
            seconds += s.seconds;
        }
        usleep(10000);
    }
    assert_true(all_valid(&s));
    assert_int_equal(s.n, job->world);
    for (int r = 0; r < s.n; r++) {
        const double *value = s.numbers[r].value;

        assert_int_equal(s.labels[r].rank, r);
        assert_int_equal(s.labels[r].index, r);
        assert_true(value[LSI_GPU_GAUGE_utilization] == 10 * r);
        assert_true(value[LSI_GPU_GAUGE_memory_utilization] == 7);
        assert_true(value[LSI_GPU_GAUGE_temperature] == 40 + r);
        assert_true(value[LSI_GPU_GAUGE_power] == 100 + r);
        assert_true(value[LSI_GPU_GAUGE_memory_used] == 1000 + r);
        assert_true(value[LSI_GPU_GAUGE_memory_free] == 40960 - 1000 - r);
        assert_true(value[LSI_GPU_GAUGE_throttle] == (r == 1 ? 0x40 : 0));
        assert_true(value[LSI_GPU_GAUGE_xid] == (r == 0 ? 0 : r == 1 ? 48 : 94));
        /* On the others no process of ours is listed, as in a container: nobody can be called a stranger. */
        assert_int_equal(s.numbers[r].strangers, r == 0 ? 1 : -1);
    }
    /* Each draws 100 W and a little, for as long as it was watched. */
    assert_true(joules > 0 && joules < (seconds + 60) * 110 * job->world);
}

static void check_text(const lsi_text *text)
{
    char line[256];

    snprintf(line, sizeof line,
             "DCGM_FI_DEV_GPU_TEMP{gpu=\"0\",UUID=\"GPU-a0000000-0000-0000-0000-000000000000\",device=\"nvidia0\","
             "modelName=\"NVIDIA \\\\A100\",Hostname=\"%s\",rank=\"0\"} 40\n", job->host);
    assert_non_null(strstr(text->data, line));
    assert_non_null(strstr(text->data, "# TYPE DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION counter\n"));
    assert_non_null(strstr(text->data, "# TYPE trainer_loss gauge\ntrainer_loss{"));
    assert_non_null(strstr(text->data, "rank=\"0\"} NaN\n"));      /* a loss that is none is shown */
    assert_null(strstr(text->data, "trainer_tokens_total"));       /* what was never told is not */
    assert_null(strstr(text->data, "-0000-000000000000\",device=\"nvidia99"));
}

/* Of GPUs of the job, those with a fatal Xid. */
static void check_faults(const char *folder)
{
    lsi_leases *leases;
    char uuid[LSI_GPU_UUID];

    CHECK_OK(lsi_lease_open(folder, "test", &leases));
    for (int r = 0; r <= job->world; r++) {
        snprintf(uuid, sizeof uuid, "GPU-a%07x-0000-0000-0000-000000000000", (unsigned)r);
        assert_int_equal(lsi_lease_fault_find(leases, uuid), r == 1 && job->world > 1 ? 48 : 0);
    }
    lsi_lease_close(&leases);
}

static void watch(int hosts)
{
    char textfile[600], leases[600];
    lsi_gpu gpu = own_gpu();
    lsi_monitor *monitor;
    lsi_trainer_numbers numbers = {0};

    pretend_hosts(hosts);
    snprintf(textfile, sizeof textfile, "%s.%d.prom", path, job->rank);
    snprintf(leases, sizeof leases, "%s.leases", path);
    if (job->rank == 0) {
        (void)mkdir(leases, 0777);
    }
    CHECK_OK(lsi_job_barrier(job));
    const lsi_monitor_options options = {
        .job = job, .gpu = &gpu, .interval = 0.02, .textfile = textfile, .leases = leases};
    CHECK_OK(lsi_monitor_open(&options, &monitor));
    assert_int_equal(monitor != NULL, job->local_rank == 0);
    lsi_gauges_tell(&numbers, LSI_TRAINER_GAUGE_loss, (double)NAN);
    lsi_monitor_tell(monitor, &numbers);
    if (job->rank == 0) {
        check_samples(monitor);
    }
    CHECK_OK(lsi_job_barrier(job));
    lsi_monitor_close(&monitor);
    CHECK_OK(lsi_job_barrier(job));
    check_faults(leases);
    if (job->local_rank == 0) {
        lsi_text text = {0};
        char *data;
        size_t size;

        CHECK_OK(lsi_file_read(textfile, 1 << 20, LS_ERR_OUTPUT, &data, &size));
        lsi_text_append_bytes(&text, data, size);
        if (job->rank == 0) {
            check_text(&text);
        }
        /* A host shows its own GPUs only. */
        for (int r = 0; r < job->world; r++) {
            char rank[32];

            snprintf(rank, sizeof rank, "nvidia%d\"", r);
            assert_int_equal(strstr(text.data, rank) != NULL, job->node[r] == job->node[job->rank]);
        }
        lsi_memory_free(data);
        lsi_text_free(&text);
        unlink(textfile);
    }
}

static void one_host(void **state)
{
    (void)state;
    watch(1);
}

static void several_hosts(void **state)
{
    (void)state;
    watch(2);
    watch(3);
    pretend_hosts(1);
}

/* No GPU, nothing to show: no thread. interval 0: nothing at all. */
static void nothing_to_watch(void **state)
{
    lsi_monitor *monitor;

    (void)state;
    CHECK_OK(lsi_monitor_open(
        &(lsi_monitor_options){.job = job, .interval = 1, .textfile = "", .leases = ""}, &monitor));
    assert_null(monitor);
    CHECK_OK(lsi_monitor_open(
        &(lsi_monitor_options){.job = job, .interval = 0, .port = 1, .textfile = "x", .leases = ""}, &monitor));
    assert_null(monitor);
    assert_false(lsi_monitor_take(NULL, NULL));
}

int main(int argc, char **argv)
{
    if (lsi_job_open("test", &argc, &argv, &job) != LS_OK) {
        return 1;
    }
    char folder[400] = "";
    if (job->rank == 0) {
        snprintf(folder, sizeof folder, "%s", test_folder_make());
    }
    if (lsi_job_broadcast(job, folder, sizeof folder, 0) != LS_OK) {
        return 1;
    }
    snprintf(path, sizeof path, "%s/monitor", folder);
    describe_machine();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_host),
        cmocka_unit_test(several_hosts),
        cmocka_unit_test(nothing_to_watch),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    if (lsi_job_barrier(job) == LS_OK && job->rank == 0) {
        test_folder_remove();
    }
    lsi_job_close(&job);
    return failed;
}
