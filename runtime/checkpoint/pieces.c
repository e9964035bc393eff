#include "checkpoint/pieces.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/memory.h"
#include "base/text.h"

/* ---- the list ------------------------------------------------------------------------------------------------ */

/* Appends bytes [at, at + bytes) of a file, of which `data` is the first; goes on with the last piece where it can. The
 * first pass counts: pieces->piece is NULL. */
static void append(lsi_pieces *pieces, int file, int64_t at, int64_t bytes, const char *data, lsi_piece *last)
{
    while (bytes > 0) {
        bool fits =
            pieces->n > 0 && last->file == file && last->at + last->bytes == at && last->bytes < LSI_PIECE_BYTES;
        int64_t room = LSI_PIECE_BYTES - (fits ? last->bytes : 0), n = bytes < room ? bytes : room;

        if (fits) {
            last->bytes += n;
        } else {
            *last = (lsi_piece){.file = file, .at = at, .bytes = n};
            if (pieces->piece != NULL) {
                pieces->data[pieces->n] = data;
            }
            pieces->n++;
        }
        if (pieces->piece != NULL) {
            pieces->piece[pieces->n - 1] = *last;
        }
        at += n;
        bytes -= n;
        data += n;
    }
}

/* Files in order, each from its beginning: neighbouring runs of one process make one piece. */
static void list(lsi_pieces *pieces)
{
    const lsi_layout *layout = pieces->layout;
    lsi_piece last = {.file = -1};

    pieces->n = 0;
    for (int f = 0; f < LSI_LAYOUT_N_FILES && pieces->with_headers; f++) {
        append(pieces, f, 0, (int64_t)layout->file[f].header_bytes, layout->file[f].header, &last);
        last.file = -1; /* a header is not in one block of memory with what follows */
    }
    for (int a = 0; a < layout->n_arrays; a++) {
        const char *data = (const char *)pieces->array[a];

        last.file = -1;
        for (int i = 0; i < pieces->n_runs; i++) {
            int64_t at, bytes;

            lsi_layout_range(layout, a, pieces->run[i].first, pieces->run[i].count, &at, &bytes);
            append(pieces, lsi_layout_file_of(a), at, bytes, data, &last);
            data += bytes;
        }
    }
}

ls_status lsi_pieces_make(const lsi_layout *layout, const lsi_piece_run *run, int n_runs, float *const *array,
                          bool with_headers, lsi_pieces *out)
{
    lsi_pieces pieces = {.layout = layout, .n_runs = n_runs, .with_headers = with_headers};
    void *memory;

    memcpy(pieces.array, array, (size_t)layout->n_arrays * sizeof *array);
    LS_TRY(lsi_memory_alloc((size_t)(n_runs + 1) * sizeof *run, "runs of a checkpoint", (void **)&pieces.run));
    if (n_runs > 0) {
        memcpy(pieces.run, run, (size_t)n_runs * sizeof *run);
    }
    list(&pieces);
    size_t n = (size_t)pieces.n + 1;
    ls_status status = lsi_memory_alloc(n * (sizeof(lsi_piece) + sizeof(void *)), "pieces of a checkpoint", &memory);
    if (status != LS_OK) {
        lsi_pieces_free(&pieces);
        return status;
    }
    pieces.data = memory;
    pieces.piece = (lsi_piece *)(void *)(pieces.data + n);
    list(&pieces);
    *out = pieces;
    return LS_OK;
}

void lsi_pieces_free(lsi_pieces *pieces)
{
    lsi_memory_free(pieces->run);
    lsi_memory_free(pieces->data);
    *pieces = (lsi_pieces){0};
}

/* ---- contents ------------------------------------------------------------------------------------------------ */

void lsi_pieces_pack(lsi_pieces *pieces)
{
    for (int a = 0; a < pieces->layout->n_arrays; a++) {
        const float *from = pieces->array[a];
        char *to = (char *)pieces->array[a];

        for (int i = 0; i < pieces->n_runs; i++) {
            const lsi_piece_run *run = &pieces->run[i];
            int64_t at, bytes;

            lsi_layout_range(pieces->layout, a, run->first, run->count, &at, &bytes);
            lsi_layout_pack(pieces->layout, run->first, run->count, from, (float *)(void *)to);
            from += run->count;
            to += bytes;
        }
    }
    for (int i = 0; i < pieces->n; i++) {
        lsi_hash128(pieces->data[i], (size_t)pieces->piece[i].bytes, pieces->piece[i].hash);
    }
}

static ls_status write_piece(int fd, const char *path, const lsi_piece *piece, const char *data)
{
    int64_t done = 0;

    while (done < piece->bytes) {
        ssize_t n = pwrite(fd, data + done, (size_t)(piece->bytes - done), (off_t)(piece->at + done));

        if (n < 0 && errno == EINTR) {
            continue;
        }
        LS_REQUIRE(n > 0, LS_ERR_CHECKPOINT, "%s: cannot write %lld bytes at %lld: %s", path,
                   (long long)(piece->bytes - done), (long long)(piece->at + done),
                   n == 0 ? "no byte was taken" : strerror(errno));
        done += n;
    }
    return LS_OK;
}

static ls_status write_file(const lsi_pieces *pieces, int file, const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    ls_status status = LS_OK;

    LS_REQUIRE(fd >= 0, LS_ERR_CHECKPOINT, "%s: cannot create: %s", path, strerror(errno));
    for (int i = 0; status == LS_OK && i < pieces->n; i++) {
        if (pieces->piece[i].file == file) {
            status = write_piece(fd, path, &pieces->piece[i], pieces->data[i]);
        }
    }
    if (status == LS_OK && fsync(fd) != 0) {
        status = LS_FAIL(LS_ERR_CHECKPOINT, "%s: cannot write to disk: %s", path, strerror(errno));
    }
    if (close(fd) != 0 && status == LS_OK) {
        status = LS_FAIL(LS_ERR_CHECKPOINT, "%s: cannot write: %s", path, strerror(errno));
    }
    return status;
}

ls_status lsi_pieces_write(const lsi_pieces *pieces, const char *folder)
{
    ls_status status = LS_OK;

    for (int f = 0; status == LS_OK && f < LSI_LAYOUT_N_FILES; f++) {
        bool mine = false;
        lsi_text path = {0};

        for (int i = 0; i < pieces->n; i++) {
            mine = mine || pieces->piece[i].file == f;
        }
        if (mine) {
            lsi_text_append(&path, "%s/%s", folder, pieces->layout->file[f].name);
            status = lsi_text_status(&path);
        }
        if (mine && status == LS_OK) {
            status = write_file(pieces, f, path.data);
        }
        lsi_text_free(&path);
    }
    return status;
}
