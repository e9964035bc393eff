/* Token ids in llm.c shards: a header of 256 little-endian int32 (magic, version, number of tokens), then the ids. */
#include "data/datasets.h"

#include <endian.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/text.h"
#include "data/content.h"
#include "data/path_list.h"
#include "data/window.h"

enum { HEADER_BYTES = 1024 };

typedef struct shard_kind {
    const char *name;
    uint32_t magic, version;
    int width;
    int64_t vocabulary;
} shard_kind;

static const shard_kind kinds[] = {
    {"GPT-2", 20240520, 1, 2, 50257},
    {"Llama 3", 20240801, 7, 4, 128256},
};

typedef struct shard {
    lsi_mapping mapping;
    lsi_token_run run;
    int64_t first_window;           /* index of its first window in the data set */
} shard;

typedef struct tokens_dataset {
    ls_dataset base;
    const shard_kind *kind;
    lsi_path_list paths;
    shard *shards;                  /* one per path */
    int64_t n_tokens;
    lsi_text description, content;
} tokens_dataset;

static void tokens_close(ls_dataset *dataset)
{
    tokens_dataset *tokens = (tokens_dataset *)dataset;

    for (int64_t i = 0; tokens->shards != NULL && i < tokens->paths.n; i++) {
        lsi_file_unmap(&tokens->shards[i].mapping);
    }
    lsi_memory_free(tokens->shards);
    lsi_path_list_free(&tokens->paths);
    lsi_text_free(&tokens->description);
    lsi_text_free(&tokens->content);
    lsi_memory_free(tokens);
}

/* The last shard whose first window is not behind `window`. */
static const shard *find_shard(const tokens_dataset *tokens, int64_t window)
{
    int64_t low = 0, high = tokens->paths.n;

    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;

        if (tokens->shards[middle].first_window <= window) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return &tokens->shards[low];
}

static ls_status tokens_read(const ls_dataset *dataset, int64_t index, void *input, void *targets)
{
    const shard *s = find_shard((const tokens_dataset *)dataset, index);

    return lsi_window_read(&s->run, dataset->target_count, dataset->n_classes, index - s->first_window, input, targets);
}

static const ls_dataset_ops tokens_ops = {sizeof(ls_dataset_ops), "tokens", tokens_close, tokens_read};

static uint32_t header_word(const lsi_mapping *mapping, int i)
{
    uint32_t word;

    memcpy(&word, mapping->data + (size_t)i * sizeof word, sizeof word);
    return le32toh(word);
}

static ls_status find_kind(const char *path, uint32_t magic, uint32_t version, const shard_kind **out)
{
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (kinds[i].magic == magic) {
            LS_REQUIRE(kinds[i].version == version, LS_ERR_DATA, "%s: version %u of %s shards (magic %u), expected %u",
                       path, version, kinds[i].name, magic, kinds[i].version);
            *out = &kinds[i];
            return LS_OK;
        }
    }
    return LS_FAIL(LS_ERR_DATA, "%s: not a file of tokens: magic %u, expected %u (%s) or %u (%s)", path, magic,
                   kinds[0].magic, kinds[0].name, kinds[1].magic, kinds[1].name);
}

static ls_status open_shard(const char *path, const shard_kind **kind, shard *out)
{
    LS_TRY(lsi_file_map(path, LS_ERR_DATA, &out->mapping));
    LS_REQUIRE(out->mapping.size >= HEADER_BYTES, LS_ERR_DATA, "%s: %zu bytes, less than the header of %d", path,
               out->mapping.size, HEADER_BYTES);
    LS_TRY(find_kind(path, header_word(&out->mapping, 0), header_word(&out->mapping, 1), kind));

    int64_t n_tokens = header_word(&out->mapping, 2), expected = HEADER_BYTES + n_tokens * (*kind)->width;

    LS_REQUIRE((int64_t)out->mapping.size == expected, LS_ERR_DATA,
               "%s: %s: %zu bytes, expected %lld for the %lld tokens that its header promises", path,
               (int64_t)out->mapping.size < expected ? "truncated" : "too long", out->mapping.size, (long long)expected,
               (long long)n_tokens);
    LS_REQUIRE(n_tokens >= 2, LS_ERR_DATA,
               "%s: holds %lld tokens; a shard needs at least 2, one to read and one to predict", path,
               (long long)n_tokens);
    out->run = (lsi_token_run){path, out->mapping.data, HEADER_BYTES, n_tokens, (*kind)->width};
    return LS_OK;
}

static ls_status tokens_open(tokens_dataset *tokens, const char *glob, int64_t context)
{
    void *memory;

    LS_TRY(lsi_path_list_expand(glob, &tokens->paths));
    LS_TRY(lsi_memory_alloc((size_t)tokens->paths.n * sizeof(shard), "token shards", &memory));
    tokens->shards = memory;
    for (int64_t i = 0; i < tokens->paths.n; i++) {
        const char *path = tokens->paths.path[i];
        const shard_kind *kind;
        shard *s = &tokens->shards[i];

        LS_TRY(open_shard(path, &kind, s));
        if (i == 0) {
            tokens->kind = kind;
        }
        LS_REQUIRE(kind == tokens->kind, LS_ERR_DATA, "%s holds %s tokens, but %s holds %s tokens", path, kind->name,
                   tokens->paths.path[0], tokens->kind->name);
        s->first_window = tokens->base.n_samples;
        tokens->base.n_samples += lsi_window_count(s->run.n_tokens, context);
        tokens->n_tokens += s->run.n_tokens;
    }
    return LS_OK;
}

static ls_status tokens_describe(tokens_dataset *tokens)
{
    lsi_text_append(&tokens->description, "tokens: %lld %s tokens in %lld windows of %lld, from %lld %s, first %s",
                    (long long)tokens->n_tokens, tokens->kind->name, (long long)tokens->base.n_samples,
                    (long long)tokens->base.target_count, (long long)tokens->paths.n,
                    tokens->paths.n == 1 ? "file" : "files", tokens->paths.path[0]);
    tokens->base.description = tokens->description.data;
    return lsi_text_status(&tokens->description);
}

/* Where one shard ends and the next begins is content: windows do not cross it. */
static ls_status tokens_describe_content(tokens_dataset *tokens)
{
    lsi_content_part *part;

    LS_TRY(lsi_memory_alloc((size_t)tokens->paths.n * sizeof *part, "parts of the content", (void **)&part));
    for (int64_t i = 0; i < tokens->paths.n; i++) {
        const lsi_token_run *run = &tokens->shards[i].run;

        part[i] = (lsi_content_part){run->data + run->offset, run->n_tokens * run->width};
    }
    lsi_text_append(&tokens->content, "tokens: %lld %s tokens of %lld %s in %lld windows of %lld, ",
                    (long long)tokens->n_tokens, tokens->kind->name, (long long)tokens->paths.n,
                    tokens->paths.n == 1 ? "shard" : "shards", (long long)tokens->base.n_samples,
                    (long long)tokens->base.target_count);
    lsi_content_append(part, tokens->paths.n, &tokens->content);
    lsi_memory_free(part);
    tokens->base.content = tokens->content.data;
    return lsi_text_status(&tokens->content);
}

ls_status lsi_dataset_tokens(const char *glob, int64_t context, int64_t n_classes, ls_dataset **out)
{
    void *memory;
    ls_status status;

    LS_TRY(lsi_memory_alloc(sizeof(tokens_dataset), "token data set", &memory));
    tokens_dataset *tokens = memory;
    tokens->base = (ls_dataset){.ops = &tokens_ops, .input_dtype = LS_I32, .input_shape = ls_shape1(context),
                                .target_count = context};
    LS_TRY_GOTO(status, failed, tokens_open(tokens, glob, context));
    tokens->base.n_classes = n_classes > 0 ? n_classes : tokens->kind->vocabulary;
    LS_TRY_GOTO(status, failed, tokens_describe(tokens));
    LS_TRY_GOTO(status, failed, tokens_describe_content(tokens));
    *out = &tokens->base;
    return LS_OK;

failed:
    tokens_close(&tokens->base);
    return status;
}
