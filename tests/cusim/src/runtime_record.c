/* The list of functions at work: names, counts, injected failures (CUSIM_FAIL) and the record (CUSIM_RECORD). */
#include "runtime.h"
#include "cusim.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct {
    const char *library, *name;
    unsigned flags;
} functions[] = {
#define CUSIM_API(library, name, flags) {#library, #name, flags},
#include "api.def"
#undef CUSIM_API
};
static uint64_t counts[CUSIM_FN_COUNT];

unsigned cusim_function_flags(cusim_function function)
{
    return functions[function].flags;
}

const char *cusim_function_name(cusim_function function)
{
    return functions[function].name;
}

int cusim_api_count(void)
{
    return CUSIM_FN_COUNT;
}

const char *cusim_api_name(int i, const char **out_library, uint64_t *out_calls)
{
    *out_library = functions[i].library;
    *out_calls = counts[i];
    return functions[i].name;
}

/* The number that the launcher gave this process, NULL without one. */
static const char *launched_rank(void)
{
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");
    return rank != NULL ? rank : getenv("PMI_RANK");
}

/* ---- injection ------------------------------------------------------------------------------ */

enum { FAILS, HANGS, KILLS };
enum { MAX_RULES = 64 };
static struct rule {
    char name[64];
    unsigned long at, seen; /* which call fails */
    int action, code;
} rules[MAX_RULES];
static int n_rules = -1;

/* "name@n=code", "name@n=hang", "name@n=kill"; "1:name@n=code" is for rank 1 only. */
static bool read_rule(const char *text, struct rule *out)
{
    const char *rank = launched_rank();
    char *behind;
    unsigned long wanted = strtoul(text, &behind, 10);
    bool elsewhere = false;
    if (behind != text) {
        if (*behind != ':')
            return false;
        elsewhere = wanted != (rank != NULL ? strtoul(rank, NULL, 10) : 0);
        text = behind + 1;
    }
    const char *at = strchr(text, '@'), *equals = at != NULL ? strchr(at, '=') : NULL;
    if (equals == NULL || at == text || (size_t)(at - text) >= sizeof out->name)
        return false;
    *out = (struct rule){.code = 0};
    memcpy(out->name, text, (size_t)(at - text));
    char *end;
    out->at = strtoul(at + 1, &end, 10);
    if (end != equals || out->at == 0)
        return false;
    out->action = strcmp(equals + 1, "hang") == 0 ? HANGS : strcmp(equals + 1, "kill") == 0 ? KILLS : FAILS;
    if (out->action == FAILS) {
        out->code = (int)strtol(equals + 1, &end, 10);
        if (*end != '\0' || out->code == 0)
            return false;
    }
    if (elsewhere)
        out->at = 0; /* no call has that number */
    return true;
}

static void read_rules(void)
{
    n_rules = 0;
    const char *setting = getenv("CUSIM_FAIL");
    if (setting == NULL)
        return;
    char *text = strdup(setting), *rest = NULL;
    for (char *word = strtok_r(text, ",", &rest); word != NULL; word = strtok_r(NULL, ",", &rest))
        if (n_rules == MAX_RULES || !read_rule(word, &rules[n_rules++]))
            cusim_die("CUSIM_FAIL: '%s' is not [rank:]name@call=code, hang or kill", word);
    free(text);
}

int cusim_inject(const char *name)
{
    cusim_lock();
    if (n_rules < 0)
        read_rules();
    int code = 0, action = FAILS;
    for (int i = 0; i < n_rules && code == 0 && action == FAILS; i++) {
        if (strcmp(rules[i].name, name) != 0 || ++rules[i].seen != rules[i].at)
            continue;
        code = rules[i].code;
        action = rules[i].action;
        cusim_note("injected: call %lu of %s %s", rules[i].at, name,
                   action == HANGS   ? "never returns"
                   : action == KILLS ? "kills the process"
                                     : "fails");
        cusim_record("injected %s code=%d", name, code);
    }
    if (action == KILLS)
        kill(getpid(), SIGKILL);
    if (action == HANGS) {
        while (cusim_lock_is_nested())
            cusim_unlock();
        cusim_unlock();
        for (;;)
            pause();
    }
    cusim_unlock();
    return code;
}

/* ---- record --------------------------------------------------------------------------------- */

/* NULL: none is kept. "%r" in the name stands for the rank that the launcher set, or the process. */
static FILE *record_file(void)
{
    static FILE *file;
    static bool asked;
    const char *name = asked ? NULL : getenv("CUSIM_RECORD");
    asked = true;
    if (name == NULL)
        return file;
    const char *rank = launched_rank(), *mark = strstr(name, "%r");
    char number[24], path[4096];
    if (rank == NULL) {
        snprintf(number, sizeof number, "%d", (int)getpid());
        rank = number;
    }
    if (mark != NULL)
        snprintf(path, sizeof path, "%.*s%s%s", (int)(mark - name), name, rank, mark + 2);
    else
        snprintf(path, sizeof path, "%s", name);
    file = fopen(path, "w");
    if (file == NULL)
        cusim_die("CUSIM_RECORD: cannot write %s", path);
    return file;
}

void cusim_record(const char *format, ...)
{
    cusim_lock();
    FILE *file = record_file();
    if (file != NULL) {
        va_list list;
        va_start(list, format);
        vfprintf(file, format, list);
        va_end(list);
        fputc('\n', file);
        fflush(file);
    }
    cusim_unlock();
}

int cusim_count_call(cusim_function function, int stream_id, const char *details)
{
    counts[function]++;
    if (record_file() != NULL) {
        char stream[32] = "";
        if (stream_id >= 0)
            snprintf(stream, sizeof stream, " stream=%d", stream_id);
        unsigned flags = functions[function].flags;
        cusim_record("call thread=%d %s%s device=%d%s%s%s%s", cusim_thread_number(), functions[function].name, stream,
                     cusim_current_device(), flags & CUSIM_WAITS ? " waits" : "",
                     flags & CUSIM_ALLOCATES ? " allocates" : "",
                     *details != '\0' ? " " : "", details);
    }
    return cusim_inject(functions[function].name);
}

struct node_text {
    char text[24];
};

static struct node_text node_text(int node)
{
    struct node_text out = {""};
    if (node >= 0)
        snprintf(out.text, sizeof out.text, " node=%d", node);
    return out;
}

void cusim_record_queued(const op *operation, int stream_id, int node)
{
    if (record_file() != NULL)
        cusim_record("queue stream=%d%s %s", stream_id, node_text(node).text, operation->name);
}

void cusim_record_run(const op *operation, int stream_id, int node, double start, double end)
{
    if (record_file() != NULL)
        cusim_record("run stream=%d from=%.9f to=%.9f%s %s", stream_id, start, end, node_text(node).text,
                     operation->name);
}

void cusim_mark(const char *text)
{
    cusim_record("mark %s", text);
}
