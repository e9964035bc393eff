#include "data/window.h"

#include <endian.h>
#include <string.h>

#include <lockstep/dataset.h>

static uint32_t token_at(const lsi_token_run *run, int64_t i)
{
    const unsigned char *at = run->data + run->offset + i * run->width;
    uint16_t half;
    uint32_t word;

    switch (run->width) {
    case 1:
        return *at;
    case 2:
        memcpy(&half, at, sizeof half);
        return le16toh(half);
    default:
        memcpy(&word, at, sizeof word);
        return le32toh(word);
    }
}

int64_t lsi_window_count(int64_t n_tokens, int64_t context)
{
    return n_tokens < 2 ? 0 : (n_tokens - 2) / context + 1;
}

ls_status lsi_window_read(const lsi_token_run *run, int64_t context, int64_t n_classes, int64_t k, int32_t *input,
                          int32_t *targets)
{
    int64_t start = k * context, left = run->n_tokens - 1 - start;
    int64_t n = left < context ? left : context;

    for (int64_t i = 0; i <= n; i++) {
        uint32_t id = token_at(run, start + i);

        LS_REQUIRE(id < n_classes, LS_ERR_DATA, "%s: token id %u at byte %lld is not below the vocabulary of %lld",
                   run->path, id, (long long)(run->offset + (start + i) * run->width), (long long)n_classes);
        if (i < n) {
            input[i] = (int32_t)id;
        }
        if (i > 0) {
            targets[i - 1] = (int32_t)id;
        }
    }
    for (int64_t i = n; i < context; i++) {
        input[i] = 0;
        targets[i] = LS_TARGET_IGNORED;
    }
    return LS_OK;
}
