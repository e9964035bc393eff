#include "data/datasets.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/failure.h"
#include "data/slice.h"

void lsi_dataset_close(ls_dataset **dataset)
{
    if (*dataset != NULL) {
        (*dataset)->ops->close(*dataset);
        *dataset = NULL;
    }
}

static bool is_set(const char *text)
{
    return text != NULL && *text != '\0';
}

static bool kind_is(const ls_config *config, const char *kind)
{
    return strcmp(config->data.kind, kind) == 0;
}

/* Puts the key whose file failed in front of the message, which names the file alone. */
static ls_status name_key(const char *key, ls_status status)
{
    lsi_failure failure, named;

    if (status == LS_OK) {
        return LS_OK;
    }
    lsi_failure_take(&failure);
    named = failure;
    int n = snprintf(named.message, sizeof named.message, "%s: ", key);

    memcpy(named.message + n, failure.message, sizeof named.message - (size_t)n);
    named.message[sizeof named.message - 1] = '\0';
    return lsi_failure_adopt(&named);
}

static ls_status open_files(const ls_config *config, const char *path, const char *labels, int64_t n_classes,
                            ls_dataset **out)
{
    if (kind_is(config, "idx")) {
        return lsi_dataset_idx(path, labels, n_classes, out);
    }
    if (kind_is(config, "text")) {
        return lsi_dataset_text(path, config->model.context, n_classes, out);
    }
    return lsi_dataset_tokens(path, config->model.context, n_classes, out);
}

static ls_status open_train(const ls_config *config, int64_t n_classes, ls_dataset **out)
{
    if (kind_is(config, "synthetic")) {
        return lsi_dataset_synthetic(config, out);
    }
    LS_REQUIRE(is_set(config->data.train), LS_ERR_CONFIG, "data.train is not set; data.kind = %s needs it",
               config->data.kind);
    return name_key("data.train", open_files(config, config->data.train, config->data.labels, n_classes, out));
}

/* Holds out a part of `whole`, which the two parts then own. */
static ls_status split(const ls_config *config, ls_dataset *whole, ls_dataset **train, ls_dataset **val)
{
    /* The factor undoes the rounding of the product: 0.07 of 100 samples are 7, not 8. */
    int64_t n_val = (int64_t)ceil(config->data.val_fraction * (double)whole->n_samples * (1 - 0x1p-50));

    LS_REQUIRE(n_val < whole->n_samples, LS_ERR_DATA,
               "data.val_fraction = %g takes all %lld samples and leaves none to train on", config->data.val_fraction,
               (long long)whole->n_samples);
    return lsi_slice_split(whole, n_val, kind_is(config, "idx") ? LSI_SLICE_SPREAD : LSI_SLICE_LAST, train, val);
}

static ls_status open_val_files(const ls_config *config, int64_t n_classes, ls_dataset **out)
{
    return name_key("data.val", open_files(config, config->data.val, config->data.val_labels, n_classes, out));
}

static ls_status open_val(const ls_config *config, const ls_dataset *train, ls_dataset **out)
{
    ls_dataset *val;

    LS_TRY(open_val_files(config, train->n_classes, &val));
    int64_t n = ls_shape_count(&val->input_shape), expected = ls_shape_count(&train->input_shape);

    if (n != expected) {
        lsi_dataset_close(&val);
        return LS_FAIL(LS_ERR_DATA, "data.val: %s: samples of %lld inputs, but those of data.train = %s have %lld",
                       config->data.val, (long long)n, config->data.train, (long long)expected);
    }
    *out = val;
    return LS_OK;
}

static ls_status check_size(const ls_config *config, const ls_dataset *train)
{
    bool held_out = config->data.val_fraction > 0;

    LS_REQUIRE(train->n_samples >= config->train.global_batch, LS_ERR_DATA,
               "%s gives %lld samples to train on%s, less than train.global_batch = %lld",
               kind_is(config, "synthetic") ? "data.samples" : config->data.train, (long long)train->n_samples,
               held_out ? " besides data.val_fraction" : "", (long long)config->train.global_batch);
    return LS_OK;
}

ls_status lsi_datasets_open(const ls_config *config, ls_dataset **train, ls_dataset **val)
{
    ls_dataset *first = NULL, *second = NULL;
    ls_status status;

    LS_TRY(open_train(config, config->model.vocab, &first));
    if (config->data.val_fraction > 0) {        /* not together with data.val: a rule of the configuration */
        ls_dataset *whole = first;

        LS_TRY_GOTO(status, failed, split(config, whole, &first, &second));
    } else if (is_set(config->data.val) && !kind_is(config, "synthetic")) {
        LS_TRY_GOTO(status, failed, open_val(config, first, &second));
    }
    LS_TRY_GOTO(status, failed, check_size(config, first));
    *train = first;
    *val = second;
    return LS_OK;

failed:
    lsi_dataset_close(&second);
    lsi_dataset_close(&first);
    return status;
}

ls_status lsi_dataset_open_val(const ls_config *config, int64_t n_classes, ls_dataset **out)
{
    ls_dataset *whole, *train = NULL;

    if (config->data.val_fraction > 0) {
        LS_TRY(open_train(config, n_classes, &whole));
        ls_status status = split(config, whole, &train, out);

        if (status != LS_OK) {
            lsi_dataset_close(&whole);
            return status;
        }
        lsi_dataset_close(&train);
        return LS_OK;
    }
    LS_REQUIRE(is_set(config->data.val) && !kind_is(config, "synthetic"), LS_ERR_CONFIG,
               "nothing to evaluate on: neither data.val nor data.val_fraction is set; name a file by --set "
               "data.val=PATH");
    return open_val_files(config, n_classes, out);
}
