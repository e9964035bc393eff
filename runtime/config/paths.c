#include "config/paths.h"

#include <limits.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/text.h"
#include "config/value.h"

static const lsi_key_id paths[] = {
    LSI_KEY_model_init_from, LSI_KEY_data_train,  LSI_KEY_data_labels, LSI_KEY_data_val,
    LSI_KEY_data_val_labels, LSI_KEY_log_dir,     LSI_KEY_log_metrics, LSI_KEY_log_trace,
    LSI_KEY_checkpoint_dir,  LSI_KEY_checkpoint_resume, LSI_KEY_device_gemm_plan,
    LSI_KEY_device_leases,   LSI_KEY_monitor_textfile,
};

/* Where a path is written, for messages about it. */
typedef struct place {
    const char *folder, *origin, *section, *key;
} place;

/* What no file can be called, said with the key: the system's own message would repeat thousands of bytes. */
static ls_status check_path(const place *where, const char *path, const char *absolute)
{
    LS_REQUIRE(path[0] != '~' || (path[1] != '/' && path[1] != '\0'), LS_ERR_CONFIG,
               "%s: %s.%s = '%.60s': '~' is a word of the shell; write the folder out", where->origin, where->section,
               where->key, path);
    LS_REQUIRE(strlen(absolute) < PATH_MAX, LS_ERR_CONFIG,
               "%s: %s.%s = '%.60s...': longer than the %d bytes of a path", where->origin, where->section, where->key,
               path, PATH_MAX - 1);
    for (const char *name = absolute; *name != '\0'; name += strcspn(name, "/")) {
        name += strspn(name, "/");
        LS_REQUIRE(strcspn(name, "/") <= NAME_MAX, LS_ERR_CONFIG,
                   "%s: %s.%s = '%.60s...': '%.20s...' is longer than the %d bytes of a name", where->origin,
                   where->section, where->key, path, name, NAME_MAX);
    }
    return LS_OK;
}

static ls_status append_absolute(const place *where, const char *path, lsi_text *out)
{
    char *joined, *absolute;

    LS_TRY(lsi_file_join(where->folder, path, &joined));
    ls_status status = lsi_file_absolute(joined, &absolute);
    lsi_memory_free(joined);
    LS_TRY(status);
    status = check_path(where, path, absolute);
    if (status == LS_OK) {
        lsi_text_append(out, "%s", absolute);
        status = lsi_text_status(out);
    }
    lsi_memory_free(absolute);
    return status;
}

/* Token shards may be a comma list; each item of it is a path of its own. */
static ls_status append_list(const place *where, const char *list, lsi_text *out)
{
    char *copy, *item;

    LS_TRY(lsi_memory_strdup(list, &copy));
    char *rest = copy;
    ls_status status = LS_OK;
    while (status == LS_OK && (item = strsep(&rest, ",")) != NULL) {
        item = lsi_text_trim(item);
        if (*item != '\0') {
            lsi_text_append(out, "%s", out->length > 0 ? "," : "");
            status = append_absolute(where, item, out);
        }
    }
    lsi_memory_free(copy);
    return status;
}

/* checkpoint.resume is a path, or one of two words. */
static bool is_word(lsi_key_id id, const char *text)
{
    return id == LSI_KEY_checkpoint_resume && (strcmp(text, "auto") == 0 || strcmp(text, "never") == 0);
}

static const char *text_of(const lsi_config *config, lsi_key_id id)
{
    return *(const char *const *)((const char *)&config->values + lsi_table_key(id)->offset);
}

/* Replaces the value, not its origin: whoever wrote the path, wrote the absolute one. */
static ls_status replace(lsi_config *config, lsi_key_id id, const lsi_text *text)
{
    LS_TRY(lsi_text_status(text));
    return lsi_value_set(&config->values, lsi_table_key(id), text->data, lsi_state_origin(config, id));
}

static ls_status resolve(lsi_config *config, lsi_key_id id, const char *folder)
{
    const char *path = text_of(config, id);
    bool is_list = (id == LSI_KEY_data_train || id == LSI_KEY_data_val) &&
                   strcmp(config->values.data.kind, "tokens") == 0;
    place where = {folder, lsi_state_origin(config, id), lsi_table_key(id)->section, lsi_table_key(id)->key};
    lsi_text text = {0};

    if (path[0] == '\0' || is_word(id, path)) {
        return LS_OK;
    }
    ls_status status = is_list ? append_list(&where, path, &text) : append_absolute(&where, path, &text);
    if (status == LS_OK && text.length > 0) {
        status = replace(config, id, &text);
    }
    lsi_text_free(&text);
    return status;
}

/* MNIST and its kin name the two files of a pair alike. */
static ls_status fill_labels(lsi_config *config, lsi_key_id images, lsi_key_id labels)
{
    static const char from[] = "images-idx3", to[] = "labels-idx1";
    const char *path = text_of(config, images), *slash = strrchr(path, '/');
    const char *found = strstr(slash != NULL ? slash : path, from);
    lsi_text text = {0};

    bool named = config->origin[labels] != NULL && text_of(config, labels)[0] != '\0';

    if (strcmp(config->values.data.kind, "idx") != 0 || named) {
        return LS_OK;
    }
    /* A name that nobody gave was made from images that may have been replaced since: made anew. */
    lsi_text_append(&text, "%s", "");
    if (found != NULL) {
        lsi_text_append(&text, "%.*s%s%s", (int)(found - path), path, to, found + strlen(from));
    }
    ls_status status = replace(config, labels, &text);
    lsi_text_free(&text);
    return status;
}

static ls_status fill_log_dir(lsi_config *config, const char *current, const char *named)
{
    char *stem = NULL;
    lsi_text text = {0};

    if (config->values.log.dir[0] != '\0') {
        return LS_OK;
    }
    if (named != NULL) {
        LS_TRY(lsi_file_stem(named, &stem));
    }
    lsi_text_append(&text, "%s/runs/%s", strcmp(current, "/") == 0 ? "" : current, stem != NULL ? stem : "default");
    lsi_memory_free(stem);
    ls_status status = replace(config, LSI_KEY_log_dir, &text);
    lsi_text_free(&text);
    return status;
}

static ls_status fill_in_log_dir(lsi_config *config, lsi_key_id id, const char *name)
{
    lsi_text text = {0};

    if (text_of(config, id)[0] != '\0') {
        return LS_OK;
    }
    lsi_text_append(&text, "%s/%s", config->values.log.dir, name);
    ls_status status = replace(config, id, &text);
    lsi_text_free(&text);
    return status;
}

static ls_status resolve_all(lsi_config *config, const char *folder, const char *current, const char *named)
{
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        LS_TRY(resolve(config, paths[i], config->from_file[paths[i]] ? folder : current));
    }
    LS_TRY(fill_labels(config, LSI_KEY_data_train, LSI_KEY_data_labels));
    LS_TRY(fill_labels(config, LSI_KEY_data_val, LSI_KEY_data_val_labels));
    LS_TRY(fill_log_dir(config, current, named));
    LS_TRY(fill_in_log_dir(config, LSI_KEY_log_metrics, "metrics.jsonl"));
    return fill_in_log_dir(config, LSI_KEY_checkpoint_dir, "checkpoints");
}

/* The absolute folder of a file. */
static ls_status folder_of(const char *file, char **out)
{
    char *absolute;

    LS_TRY(lsi_file_absolute(file, &absolute));
    ls_status status = lsi_file_folder(absolute, out);
    lsi_memory_free(absolute);
    return status;
}

ls_status lsi_paths_resolve(lsi_config *config, const char *file, const char *named)
{
    char *current = NULL, *folder = NULL;
    ls_status status;

    /* A file of no name in the current folder, so that the folder is spelled as for a real file. */
    LS_TRY(folder_of("x", &current));
    LS_TRY_GOTO(status, done, folder_of(file != NULL ? file : "x", &folder));
    status = resolve_all(config, folder, current, named);
done:
    lsi_memory_free(folder);
    lsi_memory_free(current);
    return status;
}
