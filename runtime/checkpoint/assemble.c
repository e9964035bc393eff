#include "checkpoint/assemble.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/memory.h"

static int by_place(const void *a, const void *b)
{
    const lsi_piece *x = a, *y = b;

    return x->file != y->file ? x->file - y->file : x->at < y->at ? -1 : x->at > y->at;
}

/* Files from sorted pieces, then config.json; returns how many. */
static int list_files(const lsi_layout *layout, const lsi_text *hf_config, const lsi_piece *piece, int n,
                      lsi_manifest_file *file, lsi_manifest_piece *pieces)
{
    for (int f = 0; f < LSI_LAYOUT_N_FILES; f++) {
        file[f] = (lsi_manifest_file){
            .name = (char *)(uintptr_t)layout->file[f].name,
            .bytes = layout->file[f].bytes,
            .piece = pieces,
        };
        for (int i = 0; i < n; i++) {
            if (piece[i].file == f) {
                *pieces = (lsi_manifest_piece){.at = piece[i].at, .bytes = piece[i].bytes};
                memcpy(pieces->hash, piece[i].hash, sizeof pieces->hash);
                pieces++;
                file[f].n_pieces++;
            }
        }
    }
    if (hf_config->length > 0) {
        *pieces = (lsi_manifest_piece){.bytes = (int64_t)hf_config->length};
        lsi_hash128(hf_config->data, hf_config->length, pieces->hash);
        file[LSI_LAYOUT_N_FILES] = (lsi_manifest_file){
            .name = (char *)(uintptr_t)"config.json", .bytes = pieces->bytes, .n_pieces = 1, .piece = pieces};
    }
    return LSI_LAYOUT_N_FILES + (hf_config->length > 0);
}

/* Older checkpoints are removed because this one is there: that all of it was written is not taken on trust. */
static ls_status check_whole(const lsi_manifest_file *file)
{
    int64_t at = 0;

    for (int i = 0; i < file->n_pieces && file->piece[i].at == at; i++) {
        at += file->piece[i].bytes;
    }
    LS_REQUIRE(at == file->bytes, LS_ERR_INTERNAL, "%s: the ranks wrote %lld bytes without a gap, of %lld", file->name,
               (long long)at, (long long)file->bytes);
    return LS_OK;
}

ls_status lsi_assemble_manifest(const lsi_manifest *head, const lsi_layout *layout, const lsi_text *hf_config,
                                lsi_piece *piece, int n, lsi_text *out)
{
    lsi_manifest_file file[LSI_LAYOUT_N_FILES + 1];
    lsi_manifest manifest = *head;
    lsi_manifest_piece *pieces;

    LS_TRY(lsi_memory_alloc(((size_t)n + 1) * sizeof *pieces, "pieces of a manifest", (void **)&pieces));
    qsort(piece, (size_t)n, sizeof *piece, by_place);
    manifest.file = file;
    manifest.n_files = list_files(layout, hf_config, piece, n, file, pieces);
    ls_status status = LS_OK;
    for (int f = 0; status == LS_OK && f < manifest.n_files; f++) {
        status = check_whole(&file[f]);
    }
    if (status == LS_OK) {
        status = lsi_manifest_print(&manifest, out);
    }
    lsi_memory_free(pieces);
    return status;
}
