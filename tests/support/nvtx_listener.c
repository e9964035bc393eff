/* Stands in for a profiler: NVTX loads it where NVTX_INJECTION64_PATH names it, and hands it the program's ranges. They
 * are written to the file that LOCKSTEP_TEST_RANGES names ("%r": the rank), and on simulated GPUs as marks into their
 * record:
 *
 *     domain NAME
 *     push THREAD DEPTH TEXT
 *     pop THREAD DEPTH */
#include <dlfcn.h>
#include <nvtx3/nvToolsExt.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct listener {
    FILE *file;
    void (*mark)(const char *text);
} listener;
static atomic_int n_threads;
static _Thread_local int thread, depth;
static char a_domain;

static void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void say(const char *format, ...)
{
    char text[256];
    va_list list;

    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    if (listener.file != NULL) {
        fprintf(listener.file, "%s\n", text);
        fflush(listener.file);
    }
    if (listener.mark != NULL) {
        listener.mark(text);
    }
}

static int this_thread(void)
{
    thread = thread != 0 ? thread : atomic_fetch_add(&n_threads, 1) + 1;
    return thread;
}

static nvtxDomainHandle_t NVTX_API on_create(const char *name)
{
    say("domain %s", name);
    return (nvtxDomainHandle_t)(void *)&a_domain;
}

static int NVTX_API on_push(nvtxDomainHandle_t domain, const nvtxEventAttributes_t *attributes)
{
    (void)domain;
    say("push %d %d %s", this_thread(), depth, attributes->message.ascii);
    return depth++;
}

static int NVTX_API on_pop(nvtxDomainHandle_t domain)
{
    (void)domain;
    depth--;
    say("pop %d %d", this_thread(), depth);
    return depth;
}

static void open_file(void)
{
    const char *name = getenv("LOCKSTEP_TEST_RANGES"), *rank = getenv("OMPI_COMM_WORLD_RANK");
    const char *place = name != NULL ? strstr(name, "%r") : NULL;
    char path[4096];

    if (name == NULL) {
        return;
    }
    snprintf(path, sizeof path, "%s", name);
    if (place != NULL) {
        snprintf(path, sizeof path, "%.*s%s%s", (int)(place - name), name, rank != NULL ? rank : "0", place + 2);
    }
    listener.file = fopen(path, "w");
}

int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table);
int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table)
{
    const NvtxExportTableCallbacks *callbacks = get_table(NVTX_ETID_CALLBACKS);
    NvtxFunctionTable table;
    unsigned int size = 0;
    void *symbol = dlsym(RTLD_DEFAULT, "cusim_mark");

    if (callbacks == NULL || callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size) == 0 ||
        size <= NVTX_CBID_CORE2_DomainCreateA) {
        return 0;
    }
    open_file();
    memcpy(&listener.mark, &symbol, sizeof symbol);
    *table[NVTX_CBID_CORE2_DomainCreateA] = (NvtxFunctionPointer)on_create;
    *table[NVTX_CBID_CORE2_DomainRangePushEx] = (NvtxFunctionPointer)on_push;
    *table[NVTX_CBID_CORE2_DomainRangePop] = (NvtxFunctionPointer)on_pop;
    return 1;
}
