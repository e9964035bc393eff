/* IDX files, the format of MNIST: two zero bytes, the element type, the number of dimensions, the dimensions as
 * big-endian 32-bit integers, then the elements. Images of unsigned bytes with one label each. */
#include "data/datasets.h"

#include "base/memory.h"
#include "base/text.h"
#include "data/content.h"
#include "data/contents.h"

enum { UNSIGNED_BYTES = 0x08, MAGIC_BYTES = 4 };

typedef struct idx_file {
    lsi_contents contents;
    const unsigned char *elements;
    int64_t n;                      /* first dimension */
    int64_t per_item;               /* product of the others */
} idx_file;

typedef struct idx_dataset {
    ls_dataset base;
    idx_file images, labels;
    lsi_text description, content;
} idx_dataset;

static void idx_close(ls_dataset *dataset)
{
    idx_dataset *idx = (idx_dataset *)dataset;

    lsi_contents_close(&idx->images.contents);
    lsi_contents_close(&idx->labels.contents);
    lsi_text_free(&idx->description);
    lsi_text_free(&idx->content);
    lsi_memory_free(idx);
}

static ls_status idx_read(const ls_dataset *dataset, int64_t index, void *input, void *targets)
{
    const idx_dataset *idx = (const idx_dataset *)dataset;
    int64_t n = idx->images.per_item;
    const unsigned char *pixel = idx->images.elements + index * n;
    float *value = input;
    int32_t *label = targets;

    for (int64_t i = 0; i < n; i++) {
        value[i] = (float)pixel[i] / 255.0f;
    }
    *label = idx->labels.elements[index];
    return LS_OK;
}

static const ls_dataset_ops idx_ops = {sizeof(ls_dataset_ops), "idx", idx_close, idx_read};

static int64_t big_endian32(const unsigned char *at)
{
    return (int64_t)((uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3]);
}

/* Checks magic and size. `what` is "images" or "labels". */
static ls_status parse_header(const char *path, const char *what, idx_file *file)
{
    const unsigned char *data = file->contents.data;
    int64_t size = file->contents.size, header, expected;

    LS_REQUIRE(size > 0, LS_ERR_DATA, "%s: empty, expected IDX %s", path, what);
    LS_REQUIRE(size >= MAGIC_BYTES, LS_ERR_DATA, "%s: truncated: %lld bytes, expected IDX %s", path, (long long)size,
               what);
    LS_REQUIRE(data[0] == 0 && data[1] == 0 && data[3] > 0, LS_ERR_DATA,
               "%s: not an IDX file: begins with %02x%02x%02x%02x", path, data[0], data[1], data[2], data[3]);
    LS_REQUIRE(data[2] == UNSIGNED_BYTES, LS_ERR_DATA, "%s: IDX element type 0x%02x, expected 0x08 (unsigned bytes)",
               path, data[2]);
    header = MAGIC_BYTES + 4 * data[3];
    LS_REQUIRE(size >= header, LS_ERR_DATA, "%s: truncated: %lld bytes, expected at least %lld of header", path,
               (long long)size, (long long)header);
    file->n = big_endian32(data + MAGIC_BYTES);
    file->per_item = 1;
    for (int i = 1; i < data[3]; i++) {
        int64_t dim = big_endian32(data + MAGIC_BYTES + 4 * i);

        LS_REQUIRE(dim > 0, LS_ERR_DATA, "%s: dimension %d of the %s is 0", path, i, what);
        LS_REQUIRE(file->per_item <= INT32_MAX / dim, LS_ERR_DATA,
                   "%s: one of the %s has more than %d elements by the header's dimensions", path, what, INT32_MAX);
        file->per_item *= dim;
    }
    LS_REQUIRE(file->n > 0, LS_ERR_DATA, "%s: holds no %s", path, what);
    expected = header + file->n * file->per_item;
    LS_REQUIRE(size == expected, LS_ERR_DATA, "%s: %s: %lld bytes, expected %lld for %lld %s of %lld bytes", path,
               size < expected ? "truncated" : "too long", (long long)size, (long long)expected, (long long)file->n,
               what, (long long)file->per_item);
    file->elements = data + header;
    return LS_OK;
}

static ls_status open_file(const char *path, const char *what, idx_file *out)
{
    LS_TRY(lsi_contents_open(path, &out->contents));
    return parse_header(path, what, out);
}

static ls_status check_labels(idx_dataset *idx, const char *images, const char *labels, int64_t n_classes)
{
    int64_t largest = 0;

    LS_REQUIRE(idx->labels.per_item == 1, LS_ERR_DATA, "%s: %lld bytes for each sample, expected one label", labels,
               (long long)idx->labels.per_item);
    LS_REQUIRE(idx->images.n == idx->labels.n, LS_ERR_DATA, "%s holds %lld images, but %s holds %lld labels", images,
               (long long)idx->images.n, labels, (long long)idx->labels.n);
    for (int64_t i = 0; i < idx->labels.n; i++) {
        int64_t label = idx->labels.elements[i];

        LS_REQUIRE(n_classes == 0 || label < n_classes, LS_ERR_DATA,
                   "%s: label %lld of sample %lld is not below the number of classes, %lld", labels, (long long)label,
                   (long long)i, (long long)n_classes);
        largest = label > largest ? label : largest;
    }
    idx->base.n_classes = n_classes > 0 ? n_classes : largest + 1;
    return LS_OK;
}

/* Elements alone: that images of 28 x 28 are as good as 784 is no other content. */
static ls_status describe_content(idx_dataset *idx)
{
    const lsi_content_part parts[] = {
        {idx->images.elements, idx->images.n * idx->images.per_item},
        {idx->labels.elements, idx->labels.n},
    };

    lsi_text_append(&idx->content, "idx: images %lld x %lld, labels %lld, ", (long long)idx->images.n,
                    (long long)idx->images.per_item, (long long)idx->labels.n);
    lsi_content_append(parts, sizeof parts / sizeof parts[0], &idx->content);
    idx->base.content = idx->content.data;
    return lsi_text_status(&idx->content);
}

static ls_status idx_load(idx_dataset *idx, const char *images, const char *labels, int64_t n_classes)
{
    LS_TRY(open_file(images, "images", &idx->images));
    LS_TRY(open_file(labels, "labels", &idx->labels));
    LS_TRY(check_labels(idx, images, labels, n_classes));
    idx->base.n_samples = idx->images.n;
    idx->base.input_shape = ls_shape1(idx->images.per_item);
    lsi_text_append(&idx->description, "idx: %lld samples of %lld pixels, %lld classes, from %s",
                    (long long)idx->images.n, (long long)idx->images.per_item, (long long)idx->base.n_classes, images);
    idx->base.description = idx->description.data;
    LS_TRY(lsi_text_status(&idx->description));
    return describe_content(idx);
}

ls_status lsi_dataset_idx(const char *images, const char *labels, int64_t n_classes, ls_dataset **out)
{
    void *memory;

    LS_REQUIRE(labels[0] != '\0', LS_ERR_DATA,
               "%s: has no 'images-idx3' in its name to tell the label file by; set data.labels (data.val_labels for "
               "data.val)",
               images);
    LS_TRY(lsi_memory_alloc(sizeof(idx_dataset), "idx data set", &memory));
    idx_dataset *idx = memory;

    idx->base = (ls_dataset){.ops = &idx_ops, .input_dtype = LS_F32, .target_count = 1};
    ls_status status = idx_load(idx, images, labels, n_classes);

    if (status != LS_OK) {
        idx_close(&idx->base);
        return status;
    }
    *out = &idx->base;
    return LS_OK;
}
