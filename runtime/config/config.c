#include "config/config.h"

#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "config/paths.h"
#include "config/rules.h"
#include "config/sources.h"
#include "config/state.h"
#include "config/value.h"

enum { FILE_LIMIT = 1 << 20 };

ls_status lsi_state_set(lsi_config *config, int id, const char *text, const char *origin, const char *where)
{
    char *copy = NULL;

    LS_TRY(lsi_value_set(&config->values, lsi_table_key(id), text, where));
    if (origin != NULL) {
        LS_TRY(lsi_memory_strdup(origin, &copy));
    }
    lsi_memory_free(config->origin[id]);
    config->origin[id] = copy;
    return LS_OK;
}

const char *lsi_state_origin(const lsi_config *config, int id)
{
    return config->origin[id] != NULL ? config->origin[id] : config->name;
}

static ls_status fill_defaults(lsi_config *config, const char *name)
{
    LS_TRY(lsi_memory_strdup(name, &config->name));
    for (int id = 0; id < LSI_KEY_COUNT; id++) {
        const lsi_key *key = lsi_table_key(id);

        LS_TRY(lsi_value_set(&config->values, key, key->fallback, "default"));
    }
    return LS_OK;
}

static ls_status create(const char *name, lsi_config **out)
{
    void *memory;

    LS_TRY(lsi_memory_alloc(sizeof(lsi_config), "configuration", &memory));
    lsi_config *config = memory;
    ls_status status = fill_defaults(config, name);
    if (status != LS_OK) {
        lsi_config_destroy(&config);
        return status;
    }
    *out = config;
    return LS_OK;
}

void lsi_config_destroy(lsi_config **config)
{
    if (*config == NULL) {
        return;
    }
    for (int id = 0; id < LSI_KEY_COUNT; id++) {
        lsi_value_free(&(*config)->values, lsi_table_key(id));
        lsi_memory_free((*config)->origin[id]);
    }
    lsi_memory_free((*config)->name);
    lsi_memory_free(*config);
    *config = NULL;
}

static ls_status read_file(lsi_config *config, const char *path)
{
    char *text;
    size_t size;

    LS_TRY(lsi_file_read(path, FILE_LIMIT, LS_ERR_CONFIG, &text, &size));
    ls_status status = lsi_sources_text(config, text, size, false);
    lsi_memory_free(text);
    return status;
}

/* INI text that must stay as it is. */
static ls_status read_text(lsi_config *config, const char *text, bool printed)
{
    char *copy;

    LS_TRY(lsi_memory_strdup(text, &copy));
    ls_status status = lsi_sources_text(config, copy, strlen(copy), printed);
    lsi_memory_free(copy);
    return status;
}

/* What comes on top of a file; `path` NULL: there was none. `named` gives log.dir its default. */
static ls_status complete(lsi_config *config, const char *path, const char *named, const char *const *sets, int n_sets)
{
    LS_TRY(lsi_sources_environment(config));
    LS_TRY(lsi_sources_sets(config, sets, n_sets));
    LS_TRY(lsi_paths_resolve(config, path, named));
    return lsi_rules_check(config);
}

static ls_status finish(ls_status status, lsi_config *config, lsi_config **out)
{
    if (status != LS_OK) {
        lsi_config_destroy(&config);
        return status;
    }
    *out = config;
    return LS_OK;
}

ls_status lsi_config_load(const char *path, const char *const *sets, int n_sets, lsi_config **out)
{
    lsi_config *config;

    LS_TRY(create(path != NULL ? path : "configuration", &config));
    ls_status status = path != NULL ? read_file(config, path) : LS_OK;
    if (status == LS_OK) {
        status = complete(config, path, path, sets, n_sets);
    }
    if (status == LS_OK) {
        status = lsi_rules_check_inputs(config);
    }
    return finish(status, config, out);
}

ls_status lsi_config_load_printed(const char *name, const char *text, const char *const *sets, int n_sets,
                                  lsi_config **out)
{
    lsi_config *config;

    LS_TRY(create(name, &config));
    ls_status status = read_text(config, text, true);
    if (status == LS_OK) {
        status = complete(config, NULL, NULL, sets, n_sets);
    }
    if (status == LS_OK) {
        status = lsi_rules_check_inputs(config);
    }
    return finish(status, config, out);
}

static ls_status load_program(lsi_config *config, const char *name, const char *defaults, const char *path,
                              const char *const *sets, int n_sets)
{
    if (defaults != NULL) {
        LS_TRY(read_text(config, defaults, false));
    }
    for (int id = 0; id < LSI_KEY_COUNT; id++) {
        config->from_file[id] = false;      /* a path in the program means the current folder */
    }
    if (path != NULL) {
        lsi_memory_free(config->name);
        config->name = NULL;
        LS_TRY(lsi_memory_strdup(path, &config->name));
        LS_TRY(read_file(config, path));
    }
    return complete(config, path, path != NULL ? path : name, sets, n_sets);
}

ls_status lsi_config_load_program(const char *name, const char *defaults, const char *path, const char *const *sets,
                                  int n_sets, lsi_config **out)
{
    lsi_config *config;

    LS_TRY(create(name, &config));
    return finish(load_program(config, name, defaults, path, sets, n_sets), config, out);
}

ls_status lsi_config_check_inputs(const lsi_config *config)
{
    return lsi_rules_check_inputs(config);
}

ls_status lsi_config_parse(const char *text, lsi_config **out)
{
    lsi_config *config;

    LS_TRY(create("configuration", &config));
    return finish(read_text(config, text, true), config, out);
}

const ls_config *lsi_config_values(const lsi_config *config)
{
    return &config->values;
}

int64_t lsi_config_lanes(const ls_config *config)
{
    int64_t slots = config->train.global_batch / config->train.micro_batch, lanes = 8;

    if (config->train.lanes > 0) {
        return config->train.lanes;
    }
    while (lanes > slots) {
        lanes /= 2;
    }
    return lanes;
}
