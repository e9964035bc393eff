#include "launch/options.h"

#include <stddef.h>
#include <string.h>

#include "base/number.h"
#include "launch/policy.h"

typedef enum option_kind { OPTION_FLAG, OPTION_COUNT, OPTION_SECONDS, OPTION_TEXT, OPTION_MPI } option_kind;

static const struct {
    option_kind kind;
    size_t offset;
    const char *names, *value;
    int64_t lowest, highest;
    int words;
    bool itself;
    const char *help;
} rows[] = {
#define AT(member) offsetof(lsi_launch_options, member)
#define FLAG(member, names, help) {OPTION_FLAG, AT(member), names, "", 0, 0, 0, false, help},
#define COUNT(member, names, value, lo, hi, help) {OPTION_COUNT, AT(member), names, value, lo, hi, 1, false, help},
#define SECONDS(member, names, value, lo, hi, help) {OPTION_SECONDS, AT(member), names, value, lo, hi, 1, false, help},
#define TEXT(member, names, value, help) {OPTION_TEXT, AT(member), names, value, 0, 0, 1, false, help},
#define MPI(names, value, words, itself, help) {OPTION_MPI, 0, names, value, 0, 0, words, itself, help},
    LSI_LAUNCH_OPTIONS(FLAG, COUNT, SECONDS, TEXT, MPI)
#undef FLAG
#undef COUNT
#undef SECONDS
#undef TEXT
#undef MPI
#undef AT
};
enum { N_ROWS = sizeof rows / sizeof rows[0], N_SUGGESTED = 64, NAME_ROOM = 32 };

/* The next of the names that are separated by blanks; NULL behind the last. *rest moves on. */
static const char *next_name(const char **rest, size_t *length)
{
    const char *name = *rest + strspn(*rest, " ");

    *length = strcspn(name, " ");
    *rest = name + *length;
    return *length > 0 ? name : NULL;
}

/* People write --max_restarts as well. */
static bool equal_names(const char *word, const char *name, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        char c = word[i] == '_' ? '-' : word[i];

        if (c != name[i]) {
            return false;
        }
    }
    return true;
}

/* Whether the word is an option of this row; *value is what stands behind its `=`, NULL without one. */
static bool is_option(int row, const char *word, const char **value)
{
    const char *rest = rows[row].names, *name;
    size_t length, own = strcspn(word, "=");

    *value = word[own] == '=' ? word + own + 1 : NULL;
    while ((name = next_name(&rest, &length)) != NULL) {
        if (length == own && equal_names(word, name, length)) {
            return true;
        }
    }
    return false;
}

static ls_status refuse(const char *word)
{
    static char names[N_SUGGESTED][NAME_ROOM];
    const char *list[N_SUGGESTED], *name;
    size_t length;
    int n = 0;

    for (int row = 0; row < N_ROWS; row++) {
        const char *rest = rows[row].names;

        while ((name = next_name(&rest, &length)) != NULL && n < N_SUGGESTED && length < NAME_ROOM) {
            memcpy(names[n], name, length);
            list[n] = names[n];
            n++;
        }
    }
    const char *near = lsi_text_nearest(word, list, n);
    return LS_FAIL(LS_ERR_USAGE,
                   "unknown option '%.100s'%s%s%s; --help lists launch's, --mpi-arg=WORD hands one to mpirun", word,
                   near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}

static ls_status set_number(int row, const char *option, const char *text, void *member)
{
    double seconds = 0;
    int64_t count = 0;
    bool is_count = rows[row].kind == OPTION_COUNT;
    const char *why = is_count ? lsi_number_int(text, &count) : lsi_number_duration(text, &seconds);
    double value = is_count ? (double)count : seconds;

    LS_REQUIRE(why == NULL, LS_ERR_USAGE, "%s %.60s: %s", option, text, why);
    LS_REQUIRE(value >= (double)rows[row].lowest && value <= (double)rows[row].highest, LS_ERR_USAGE,
               "%s %.60s: not within %lld and %lld", option, text, (long long)rows[row].lowest,
               (long long)rows[row].highest);
    if (is_count) {
        *(int64_t *)member = count;
    } else {
        *(double *)member = seconds;
    }
    return LS_OK;
}

/* Option words[0], whose values are words[1 ..]. */
static ls_status set(lsi_launch_options *options, int row, char *const *words)
{
    void *member = (char *)options + rows[row].offset;

    switch (rows[row].kind) {
    case OPTION_FLAG:
        *(bool *)member = true;
        return LS_OK;
    case OPTION_TEXT:
        LS_REQUIRE(words[1][0] != '\0', LS_ERR_USAGE, "%s has an empty value", words[0]);
        *(const char **)member = words[1];
        return LS_OK;
    case OPTION_MPI:
        return lsi_words_add_all(&options->mpi, rows[row].itself ? words : words + 1,
                                 rows[row].words + (rows[row].itself ? 1 : 0));
    default:
        return set_number(row, words[0], words[1], member);
    }
}

/* Takes the option at argv[*i]; *i moves on to the last word that belongs to it. */
static ls_status take(lsi_launch_options *options, bool given[N_ROWS], int argc, char *const *argv, int *i)
{
    const char *value;
    char name[NAME_ROOM];
    int row = 0;

    while (row < N_ROWS && !is_option(row, argv[*i], &value)) {
        row++;
    }
    if (row == N_ROWS) {
        return refuse(argv[*i]);
    }
    size_t length = strcspn(argv[*i], "=");
    memcpy(name, argv[*i], length); /* a row's name: short */
    name[length] = '\0';
    LS_REQUIRE(!given[row] || rows[row].kind == OPTION_MPI || rows[row].kind == OPTION_FLAG, LS_ERR_USAGE,
               "%s is given twice", name);
    given[row] = true;
    if (value != NULL) {
        LS_REQUIRE(rows[row].words == 1, LS_ERR_USAGE, "%s takes %s", argv[*i],
                   rows[row].words == 0 ? "no value" : rows[row].value);
        return set(options, row, (char *[]){name, (char *)value});
    }
    LS_REQUIRE(*i + rows[row].words < argc, LS_ERR_USAGE, "%s needs %s behind it", name, rows[row].value);
    *i += rows[row].words;
    return set(options, row, argv + *i - rows[row].words);
}

static ls_status parse(int argc, char *const *argv, lsi_launch_options *options)
{
    bool given[N_ROWS] = {false};
    int i = 1;

    for (; i < argc && argv[i][0] == '-' && argv[i][1] != '\0'; i++) {
        if (strcmp(argv[i], "--") == 0) {
            i++;
            break;
        }
        LS_TRY(take(options, given, argc, argv, &i));
    }
    if (options->help || options->version) {
        return LS_OK;
    }
    LS_REQUIRE(i < argc, LS_ERR_USAGE,
               "no program given; usage: launch [OPTION]... PROGRAM CONFIG [ARGUMENT]..., see --help");
    LS_REQUIRE(options->host == NULL || options->hostfile == NULL, LS_ERR_USAGE,
               "--host and --hostfile together: give one of them");
    options->command = argv + i;
    options->n_command = argc - i;
    return LS_OK;
}

ls_status lsi_launch_options_parse(int argc, char *const *argv, lsi_launch_options *out)
{
    lsi_launch_options options = {.restart_delay = 1};
    ls_status status = parse(argc, argv, &options);

    if (status != LS_OK) {
        lsi_launch_options_free(&options);
        return status;
    }
    *out = options;
    return LS_OK;
}

void lsi_launch_options_free(lsi_launch_options *options)
{
    lsi_words_free(&options->mpi);
}

void lsi_launch_options_help(lsi_text *out)
{
    enum { COLUMN = 28 };

    lsi_text_append(
        out, "usage: launch [OPTION]... [--] PROGRAM CONFIG [ARGUMENT]...\n\n"
             "Starts a training program in as many ranks as suit this machine, each on a GPU of its own or on a\n"
             "share of the cores, and looks after them: mpirun -n N PROGRAM CONFIG ... with what it needs.\n\n");
    for (int row = 0; row < N_ROWS; row++) {
        size_t length = strcspn(rows[row].names, " ");
        int used = (int)(2 + length + 1 + strlen(rows[row].value));

        lsi_text_append(out, "  %.*s %s%*s %s\n", (int)length, rows[row].names, rows[row].value,
                        used < COLUMN ? COLUMN - used : 0, "", rows[row].help);
    }
    lsi_text_append(
        out,
        "\nHow many ranks, without -n: one for each GPU that device.select takes, or for each of its MIG instances;\n"
        "on the cpu backend one for each core. With --host or --hostfile each host is asked for its GPUs, and gets\n"
        "no more ranks than its slots, where they are given; on the cpu, or in an allocation of a batch system,\n"
        "one for each slot. Never more than train.lanes. A start again leaves out GPUs that have failed (see\n"
        "`gpus`) and hosts that do not answer.\n\n"
        "SIGTERM, SIGINT, SIGHUP, SIGUSR1 or SIGUSR2: the ranks finish their step, save and leave (75); a second\n"
        "one ends them at once. If launch is killed, its ranks are killed too.\n\n"
        "mpirun runs `launch --as-rank PROGRAM ...`, which keeps one rank: it frames its output, tells its end; and\n"
        "`launch --as-count PROGRAM ...`, which counts the GPUs of another host.\n\n");
    lsi_launch_policy_help(out);
}
