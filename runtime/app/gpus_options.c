#include "app/gpus_options.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/number.h"
#include "config/table.h"

/* Options of its own; the rest are keys of [device]. */
static const struct {
    const char *name, *value, *help;
} options[] = {
    {"--count", "N", "print the N best ones as a value for CUDA_VISIBLE_DEVICES; ends with 5 when there are fewer"},
    {"--index", NULL, "with --count: nvidia-smi's numbers in the place of UUIDs (needs CUDA_DEVICE_ORDER=PCI_BUS_ID)"},
    {"--json", NULL, "the list as one JSON object"},
    {"--explain", NULL, "why a process started here sees the GPUs it sees"},
    {"--watch", "SECONDS", "a table that is written anew every SECONDS (2)"},
    {"--help", NULL, "this text"},
    {"--version", NULL, "version, commit, compiler"},
};
enum { COUNT, INDEX, JSON, EXPLAIN, WATCH, HELP, VERSION, N_OPTIONS };

static const char *const keys[] = {"select",  "min_free", "max_utilization", "min_capability", "name",
                                   "exclude", "idle",     "links",           "sharing",        "mixed",
                                   "wait",    "priority", "sample",          "leases"};
enum { N_KEYS = sizeof keys / sizeof keys[0], NAME_ROOM = 40 };

/* "min_free" -> "--min-free" */
static void option_name(const char *key, char out[NAME_ROOM])
{
    snprintf(out, NAME_ROOM, "--%s", key);
    for (char *c = out; *c != '\0'; c++) {
        *c = *c == '_' ? '-' : *c;
    }
}

static const lsi_key *find_key(const char *key)
{
    return lsi_table_key(lsi_table_find("device", key));
}

/* ---- parsing
 * ---------------------------------------------------------------------------------------------------------- */

/* The value behind `name` or behind its "="; *i moves on where it is the next argument. NULL: none. */
static const char *take_value(int argc, char *const *argv, int *i, size_t name_length)
{
    if (argv[*i][name_length] == '=') {
        return argv[*i] + name_length + 1;
    }
    return *i + 1 < argc ? argv[++*i] : NULL;
}

static bool is_option(const char *argument, const char *name)
{
    size_t n = strlen(name);

    return strncmp(argument, name, n) == 0 && (argument[n] == '\0' || argument[n] == '=');
}

static ls_status add_set(gpus_options *out, const char *key, const char *value)
{
    lsi_text text = {0};

    lsi_text_append(&text, "device.%s=%s", key, value);
    ls_status status = lsi_text_status(&text);
    if (status == LS_OK) {
        status = lsi_memory_strdup(text.data, &out->sets[out->n_sets]);
    }
    out->n_sets += status == LS_OK;
    lsi_text_free(&text);
    return status;
}

/* *known: the argument is a key's. A switch may stand without a value. */
static ls_status parse_key(int argc, char *const *argv, int *i, gpus_options *out, bool *known)
{
    char name[NAME_ROOM];

    for (int k = 0; k < N_KEYS; k++) {
        option_name(keys[k], name);
        if (!is_option(argv[*i], name)) {
            continue;
        }
        *known = true;
        bool bare = find_key(keys[k])->kind == LSI_KEY_BOOL && argv[*i][strlen(name)] == '\0';
        const char *value = bare ? "true" : take_value(argc, argv, i, strlen(name));
        LS_REQUIRE(value != NULL, LS_ERR_USAGE, "%s needs a value behind it", name);
        return add_set(out, keys[k], value);
    }
    return LS_OK;
}

static ls_status unknown(const char *argument)
{
    char names[N_KEYS][NAME_ROOM];
    const char *all[N_OPTIONS + N_KEYS];

    for (int i = 0; i < N_OPTIONS; i++) {
        all[i] = options[i].name;
    }
    for (int k = 0; k < N_KEYS; k++) {
        option_name(keys[k], names[k]);
        all[N_OPTIONS + k] = names[k];
    }
    const char *near = lsi_text_nearest(argument, all, N_OPTIONS + N_KEYS);
    return LS_FAIL(LS_ERR_USAGE, "unknown option '%.80s'%s%s%s; --help lists them", argument,
                   near != NULL ? "; did you mean '" : "", near != NULL ? near : "", near != NULL ? "'?" : "");
}

static ls_status set_what(gpus_options *out, gpus_what what)
{
    LS_REQUIRE(out->what == GPUS_LIST || out->what == what, LS_ERR_USAGE,
               "--count, --explain, --watch, --help and --version: give one of them");
    out->what = what;
    return LS_OK;
}

static ls_status take_count(const char *value, gpus_options *out)
{
    int64_t n;

    LS_REQUIRE(value != NULL, LS_ERR_USAGE, "--count needs a number behind it");
    const char *why = lsi_number_int(value, &n);
    LS_REQUIRE(why == NULL && n >= 1 && n <= GPUS_COUNT_MAX, LS_ERR_USAGE, "--count %.60s: %s", value,
               why != NULL ? why : "not within 1 and 64");
    out->count = (int)n;
    return set_what(out, GPUS_COUNT);
}

static ls_status take_interval(int argc, char *const *argv, int *i, gpus_options *out)
{
    size_t length = strlen(options[WATCH].name);
    bool given = argv[*i][length] == '=' || (*i + 1 < argc && argv[*i + 1][0] >= '0' && argv[*i + 1][0] <= '9');
    const char *value = given ? take_value(argc, argv, i, length) : "2";
    const char *why = lsi_number_duration(value, &out->watch_seconds);

    LS_REQUIRE(why == NULL && out->watch_seconds >= 0.1 && out->watch_seconds <= 3600, LS_ERR_USAGE,
               "--watch %.60s: %s", value, why != NULL ? why : "not within 0.1 and 3600 seconds");
    return set_what(out, GPUS_WATCH);
}

static ls_status take_option(int option, int argc, char *const *argv, int *i, gpus_options *out)
{
    LS_REQUIRE(options[option].value != NULL || argv[*i][strlen(options[option].name)] == '\0', LS_ERR_USAGE,
               "%s takes no value", options[option].name);
    switch (option) {
    case COUNT:
        return take_count(take_value(argc, argv, i, strlen(options[COUNT].name)), out);
    case INDEX:
        out->index = true;
        return LS_OK;
    case JSON:
        out->json = true;
        return LS_OK;
    case EXPLAIN:
        return set_what(out, GPUS_EXPLAIN);
    case WATCH:
        return take_interval(argc, argv, i, out);
    case HELP:
        return set_what(out, GPUS_HELP);
    default:
        return set_what(out, GPUS_VERSION);
    }
}

ls_status gpus_options_parse(int argc, char *const *argv, gpus_options *out)
{
    *out = (gpus_options){.what = GPUS_LIST};
    LS_TRY(lsi_memory_alloc((size_t)argc * sizeof *out->sets, "the command line", (void **)&out->sets));
    for (int i = 1; i < argc; i++) {
        bool known = false;

        for (int o = 0; o < N_OPTIONS && !known; o++) {
            if (is_option(argv[i], options[o].name)) {
                known = true;
                LS_TRY(take_option(o, argc, argv, &i, out));
            }
        }
        if (!known) {
            LS_TRY(parse_key(argc, argv, &i, out, &known));
        }
        if (!known) {
            return unknown(argv[i]);
        }
    }
    LS_REQUIRE(!out->index || out->what == GPUS_COUNT, LS_ERR_USAGE, "--index goes with --count only");
    LS_REQUIRE(!out->json || out->what == GPUS_LIST, LS_ERR_USAGE, "--json goes with the list only");
    return LS_OK;
}

void gpus_options_free(gpus_options *out)
{
    for (int i = 0; i < out->n_sets; i++) {
        lsi_memory_free(out->sets[i]);
    }
    lsi_memory_free(out->sets);
}

/* ---- help
 * -------------------------------------------------------------------------------------------------------------- */

static void append_option(const char *name, const char *value, const char *help, lsi_text *out)
{
    char left[64];

    snprintf(left, sizeof left, "%s%s%s", name, value != NULL ? " " : "", value != NULL ? value : "");
    lsi_text_append(out, "  %-26s %s\n", left, help);
}

void gpus_options_help(lsi_text *out)
{
    char name[NAME_ROOM];

    lsi_text_append(out, "Usage: gpus [OPTION]...\n"
                         "The GPUs of this host: what they are, who uses them, which ones a job would get.\n"
                         "  CUDA_VISIBLE_DEVICES=$(gpus --count 2 --min-free 20G) program\n\n");
    for (int i = 0; i < N_OPTIONS; i++) {
        append_option(options[i].name, options[i].value, options[i].help, out);
    }
    lsi_text_append(out, "\nWhich GPUs will do, as the keys of [device] in a configuration of the trainer:\n");
    for (int k = 0; k < N_KEYS; k++) {
        const lsi_key *key = find_key(keys[k]);

        option_name(keys[k], name);
        append_option(name,
                      key->kind == LSI_KEY_BOOL ? NULL
                      : key->choices != NULL    ? key->choices
                                                : "VALUE",
                      key->help, out);
    }
    lsi_text_append(out, "\nEnds with 0, 2 (usage), 5 (no GPU, or fewer than asked for), 10 (cannot write).\n");
}
