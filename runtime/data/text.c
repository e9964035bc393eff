/* Any file as a sequence of bytes: token ids 0 to 255. */
#include "data/datasets.h"

#include "base/memory.h"
#include "base/text.h"
#include "data/content.h"
#include "data/contents.h"
#include "data/window.h"

enum { N_BYTE_VALUES = 256 };

typedef struct text_dataset {
    ls_dataset base;
    lsi_contents contents;
    lsi_token_run run;
    char *path;
    lsi_text description, content;
} text_dataset;

static void text_close(ls_dataset *dataset)
{
    text_dataset *text = (text_dataset *)dataset;

    lsi_contents_close(&text->contents);
    lsi_memory_free(text->path);
    lsi_text_free(&text->description);
    lsi_text_free(&text->content);
    lsi_memory_free(text);
}

static ls_status text_read(const ls_dataset *dataset, int64_t index, void *input, void *targets)
{
    const text_dataset *text = (const text_dataset *)dataset;

    return lsi_window_read(&text->run, dataset->target_count, dataset->n_classes, index, input, targets);
}

static const ls_dataset_ops text_ops = {sizeof(ls_dataset_ops), "text", text_close, text_read};

static ls_status text_load(text_dataset *text, const char *path, int64_t context)
{
    LS_TRY(lsi_memory_strdup(path, &text->path));
    LS_TRY(lsi_contents_open(path, &text->contents));
    LS_REQUIRE(text->contents.size >= 2, LS_ERR_DATA,
               "%s: holds %lld bytes; a text needs at least 2, one to read and one to predict", path,
               (long long)text->contents.size);
    text->run = (lsi_token_run){text->path, text->contents.data, 0, text->contents.size, 1};
    text->base.n_samples = lsi_window_count(text->run.n_tokens, context);
    lsi_text_append(&text->description, "text: %lld bytes in %lld windows of %lld, from %s",
                    (long long)text->run.n_tokens, (long long)text->base.n_samples, (long long)context, path);
    text->base.description = text->description.data;
    LS_TRY(lsi_text_status(&text->description));
    lsi_text_append(&text->content, "text: %lld bytes in %lld windows of %lld, ", (long long)text->run.n_tokens,
                    (long long)text->base.n_samples, (long long)context);
    lsi_content_append(&(lsi_content_part){text->contents.data, text->contents.size}, 1, &text->content);
    text->base.content = text->content.data;
    return lsi_text_status(&text->content);
}

ls_status lsi_dataset_text(const char *path, int64_t context, int64_t n_classes, ls_dataset **out)
{
    void *memory;

    LS_TRY(lsi_memory_alloc(sizeof(text_dataset), "text data set", &memory));
    text_dataset *text = memory;
    text->base = (ls_dataset){.ops = &text_ops, .input_dtype = LS_I32, .input_shape = ls_shape1(context),
                              .target_count = context, .n_classes = n_classes > 0 ? n_classes : N_BYTE_VALUES};
    ls_status status = text_load(text, path, context);

    if (status != LS_OK) {
        text_close(&text->base);
        return status;
    }
    *out = &text->base;
    return LS_OK;
}
