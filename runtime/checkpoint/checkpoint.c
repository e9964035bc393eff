#include "checkpoint/checkpoint.h"

#include <string.h>
#include <sys/stat.h>

#include "base/failure.h"
#include "base/hash.h"
#include "base/memory.h"
#include "checkpoint/bind.h"
#include "checkpoint/folder.h"
#include "checkpoint/layout.h"

struct lsi_checkpoint {
    char *folder;
    lsi_manifest manifest;
    lsi_mapping *mapping;                        /* one per file of the manifest */
    lsi_safetensors tensors[LSI_LAYOUT_N_FILES]; /* path NULL: there is none */
    lsi_bind bound;
};

/* ---- opening --------------------------------------------------------------------------------------------------- */

/* The newest checkpoint inside a folder that is none itself, as a hint for the message. */
static void append_hint(const char *folder, lsi_text *out)
{
    static const char *const inside[] = {"", "checkpoints"};

    for (size_t i = 0; i < sizeof inside / sizeof inside[0] && out->length == 0; i++) {
        int64_t *steps = NULL;
        char *dir = NULL, *newest = NULL;
        int n = 0;

        if (lsi_file_join(folder, inside[i], &dir) == LS_OK && lsi_folder_list(dir, &steps, &n) == LS_OK && n > 0 &&
            lsi_folder_path(dir, steps[0], &newest) == LS_OK) {
            lsi_text_append(out, "; the newest inside is %s", newest);
        }
        lsi_memory_free(newest);
        lsi_memory_free(steps);
        lsi_memory_free(dir);
    }
}

/* Says more than that manifest.json is missing. */
static ls_status check_folder(const char *folder)
{
    struct stat info;
    lsi_text hint = {0};
    char *manifest;

    LS_REQUIRE(stat(folder, &info) == 0, LS_ERR_CHECKPOINT, "%s: there is no such checkpoint", folder);
    LS_REQUIRE(S_ISDIR(info.st_mode), LS_ERR_CHECKPOINT, "%s: is not a checkpoint, which is a folder", folder);
    LS_TRY(lsi_file_join(folder, "manifest.json", &manifest));
    bool has_manifest = stat(manifest, &info) == 0;
    lsi_memory_free(manifest);
    if (has_manifest) {
        return LS_OK;
    }
    append_hint(folder, &hint);
    ls_status status = LS_FAIL(LS_ERR_CHECKPOINT, "%s: is not a checkpoint: it has no manifest.json%s", folder,
                               hint.data != NULL ? hint.data : "");
    lsi_text_free(&hint);
    return status;
}

static ls_status check_piece(const lsi_checkpoint *c, int file, int piece)
{
    const lsi_manifest_file *f = &c->manifest.file[file];
    const lsi_manifest_piece *p = &f->piece[piece];
    unsigned char hash[16];

    lsi_hash128(c->mapping[file].data + p->at, (size_t)p->bytes, hash);
    LS_REQUIRE(memcmp(hash, p->hash, sizeof hash) == 0, LS_ERR_CHECKPOINT,
               "%s/%s: damaged: piece %d of %d (bytes %lld to %lld) has not the hash in the manifest", c->folder,
               f->name, piece + 1, f->n_pieces, (long long)p->at, (long long)(p->at + p->bytes));
    return LS_OK;
}

/* What a damaged header says must not be believed, not even for a message: its piece comes first. */
static ls_status map_file(lsi_checkpoint *c, int file)
{
    const lsi_manifest_file *f = &c->manifest.file[file];
    char *path;

    LS_TRY(lsi_file_join(c->folder, f->name, &path));
    ls_status status = lsi_file_map(path, LS_ERR_CHECKPOINT, &c->mapping[file]);
    if (status == LS_OK && (int64_t)c->mapping[file].size != f->bytes) {
        status = LS_FAIL(LS_ERR_CHECKPOINT, "%s: damaged: it has %zu bytes, the manifest says %lld in %d pieces", path,
                         c->mapping[file].size, (long long)f->bytes, f->n_pieces);
    }
    lsi_memory_free(path);
    LS_TRY(status);
    return f->n_pieces > 0 ? check_piece(c, file, 0) : LS_OK;
}

/* A file that is no safetensors file is a fault of data; here the checkpoint is at fault. */
static ls_status blame_checkpoint(ls_status status)
{
    lsi_failure failure;

    if (status != LS_ERR_DATA) {
        return status;
    }
    lsi_failure_take(&failure);
    failure.status = LS_ERR_CHECKPOINT;
    return lsi_failure_adopt(&failure);
}

static ls_status open_tensors(lsi_checkpoint *c)
{
    for (int i = 0; i < c->manifest.n_files; i++) {
        for (int f = 0; f < LSI_LAYOUT_N_FILES; f++) {
            char *path;

            if (strcmp(c->manifest.file[i].name, lsi_layout_file_name(f)) != 0) {
                continue;
            }
            LS_TRY(lsi_file_join(c->folder, c->manifest.file[i].name, &path));
            ls_status status = blame_checkpoint(lsi_safetensors_open(path, &c->tensors[f]));
            lsi_memory_free(path);
            LS_TRY(status);
        }
    }
    LS_REQUIRE(c->tensors[LSI_LAYOUT_MODEL].path != NULL, LS_ERR_CHECKPOINT, "%s/manifest.json: lists no %s", c->folder,
               lsi_layout_file_name(LSI_LAYOUT_MODEL));
    return LS_OK;
}

static ls_status open_checkpoint(const char *folder, lsi_checkpoint *c)
{
    LS_TRY(lsi_memory_strdup(folder, &c->folder));
    LS_TRY(check_folder(folder));
    LS_TRY(lsi_manifest_read(folder, &c->manifest));
    LS_TRY(
        lsi_memory_alloc((size_t)(c->manifest.n_files + 1) * sizeof *c->mapping, "mapped files", (void **)&c->mapping));
    for (int i = 0; i < c->manifest.n_files; i++) {
        LS_TRY(map_file(c, i));
    }
    return open_tensors(c);
}

ls_status lsi_checkpoint_open(const char *folder, lsi_checkpoint **out)
{
    lsi_checkpoint *c;

    LS_TRY(lsi_memory_alloc(sizeof *c, "a checkpoint", (void **)&c));
    ls_status status = open_checkpoint(folder, c);
    if (status != LS_OK) {
        lsi_checkpoint_close(&c);
        return status;
    }
    *out = c;
    return LS_OK;
}

void lsi_checkpoint_close(lsi_checkpoint **checkpoint)
{
    lsi_checkpoint *c = *checkpoint;

    if (c == NULL) {
        return;
    }
    lsi_bind_free(&c->bound);
    for (int f = 0; f < LSI_LAYOUT_N_FILES; f++) {
        lsi_safetensors_close(&c->tensors[f]);
    }
    for (int i = 0; c->mapping != NULL && i < c->manifest.n_files; i++) {
        lsi_file_unmap(&c->mapping[i]);
    }
    lsi_memory_free(c->mapping);
    lsi_manifest_free(&c->manifest);
    lsi_memory_free(c->folder);
    lsi_memory_free(c);
    *checkpoint = NULL;
}

const lsi_manifest *lsi_checkpoint_manifest(const lsi_checkpoint *checkpoint)
{
    return &checkpoint->manifest;
}

const lsi_safetensors *lsi_checkpoint_tensors(const lsi_checkpoint *checkpoint, int layout_file)
{
    const lsi_safetensors *tensors = &checkpoint->tensors[layout_file];

    return tensors->path != NULL ? tensors : NULL;
}

/* ---- using ----------------------------------------------------------------------------------------------------- */

ls_status lsi_checkpoint_verify(const lsi_checkpoint *checkpoint, int part, int n_parts, lsi_watchdog *watchdog)
{
    int64_t next = 0;

    for (int i = 0; i < checkpoint->manifest.n_files; i++) {
        for (int k = 0; k < checkpoint->manifest.file[i].n_pieces; k++) {
            if (next++ % n_parts == part) {
                LS_TRY(check_piece(checkpoint, i, k));
                lsi_watchdog_tick(watchdog);
            }
        }
    }
    return LS_OK;
}

ls_status lsi_checkpoint_bind(lsi_checkpoint *checkpoint, const lsi_param_table *params, int n_arrays,
                              const char *const *array_name)
{
    const lsi_safetensors *files[LSI_LAYOUT_N_FILES];

    for (int f = 0; f < LSI_LAYOUT_N_FILES; f++) {
        files[f] = lsi_checkpoint_tensors(checkpoint, f);
    }
    LS_REQUIRE(n_arrays <= 1 || files[LSI_LAYOUT_OPTIMIZER] != NULL, LS_ERR_CHECKPOINT,
               "%s/manifest.json: lists no %s, so training cannot go on from it", checkpoint->folder,
               lsi_layout_file_name(LSI_LAYOUT_OPTIMIZER));
    lsi_bind_free(&checkpoint->bound);
    return lsi_bind_make(files, params, n_arrays, array_name, &checkpoint->bound);
}

ls_status lsi_checkpoint_read(void *checkpoint, int array, int64_t first, int64_t count, float *out)
{
    const lsi_checkpoint *c = checkpoint;

    lsi_bind_read(&c->bound, array, first, count, out);
    return LS_OK;
}

/* ---- the weights hash ------------------------------------------------------------------------------------------ */

/* Tensors stand in for parameters of a flat index without padding. A lsi_param_reader. */
typedef struct file_weights {
    const lsi_safetensors *file;
    lsi_param_table table;
} file_weights;

static ls_status read_tensor(void *argument, int64_t first, int64_t count, float *host)
{
    const file_weights *w = argument;
    int i = lsi_param_at(&w->table, first);

    memcpy(host, (const char *)w->file->tensor[i].data + (size_t)(first - w->table.param[i].offset) * sizeof *host,
           (size_t)count * sizeof *host);
    return LS_OK;
}

static ls_status hash_tensors(const lsi_safetensors *file, char out[33])
{
    file_weights w = {.file = file, .table = {.n = file->n}};
    int64_t offset = 0;

    for (int i = 0; i < file->n; i++) {
        LS_REQUIRE(file->tensor[i].dtype == LS_F32, LS_ERR_DATA,
                   "%s: tensor %s is %s; the weights hash is made of F32 ones", file->path, file->tensor[i].name,
                   file->tensor[i].type);
    }
    LS_TRY(lsi_memory_alloc((size_t)(file->n + 1) * sizeof *w.table.param, "parameter table", (void **)&w.table.param));
    for (int i = 0; i < file->n; i++) {
        w.table.param[i] = (lsi_param){.count = file->tensor[i].count, .offset = offset};
        offset += file->tensor[i].count;
    }
    ls_status status = lsi_param_hash(&w.table, read_tensor, &w, out);
    lsi_memory_free(w.table.param);
    return status;
}

static ls_status hash_file(const char *path, char out[33])
{
    lsi_safetensors file;

    LS_TRY(lsi_safetensors_open(path, &file));
    ls_status status = hash_tensors(&file, out);
    lsi_safetensors_close(&file);
    return status;
}

ls_status lsi_checkpoint_weights_hash(const char *path, char out[33])
{
    struct stat info;
    lsi_checkpoint *checkpoint;

    if (stat(path, &info) == 0 && !S_ISDIR(info.st_mode)) {
        return hash_file(path, out);
    }
    LS_TRY(lsi_checkpoint_open(path, &checkpoint));
    ls_status status = lsi_checkpoint_verify(checkpoint, 0, 1, NULL);
    if (status == LS_OK) {
        status = blame_checkpoint(hash_tensors(&checkpoint->tensors[LSI_LAYOUT_MODEL], out));
    }
    lsi_checkpoint_close(&checkpoint);
    return status;
}
