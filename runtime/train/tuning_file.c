/* Plan files as text. Whoever wrote one may have edited it: every member is checked. */
#include "train/tuning.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/memory.h"
#include "base/number.h"

enum { FORMAT = 1, PRODUCTS_LIMIT = 100000 };

static const char *const epilogues[LSI_GEMM_EPILOGUE_COUNT] = {"none", "gelu", "gelu_bwd"};
static const ls_dtype dtypes[] = {LS_F32, LS_F16, LS_BF16};
enum { N_DTYPES = sizeof dtypes / sizeof dtypes[0] };

/* ---- printing ---------------------------------------------------------------------------------------------------- */

static ls_status append_string(lsi_text *out, const char *name, const char *value)
{
    json_t *string = json_string(value);
    char *quoted = string != NULL ? json_dumps(string, JSON_ENCODE_ANY) : NULL;

    json_decref(string);
    LS_REQUIRE(quoted != NULL, LS_ERR_INTERNAL, "a plan's %s '%.60s' is no UTF-8", name, value);
    lsi_text_append(out, " \"%s\": %s,\n", name, quoted);
    free(quoted);
    return LS_OK;
}

static const char *truth(int32_t value)
{
    return value ? "true" : "false";
}

static void append_product(const lsi_tuned *e, lsi_text *out)
{
    const lsi_gemm_shape *s = &e->shape;

    lsi_text_append(out, "{\"m\": %" PRId64 ", \"n\": %" PRId64 ", \"k\": %" PRId64, s->m, s->n, s->k);
    lsi_text_append(out, ", \"transpose_a\": %s, \"transpose_b\": %s, \"factors\": \"%s\", \"result\": \"%s\"",
                    truth(s->trans_a), truth(s->trans_b), ls_dtype_name((ls_dtype)s->factors),
                    ls_dtype_name((ls_dtype)s->c));
    lsi_text_append(out, ", \"tf32\": %s, \"bias\": %s, \"epilogue\": \"%s\", \"aligned\": %s,\n   \"algorithm\": {",
                    truth(s->tf32), truth(s->bias), epilogues[s->epilogue], truth(s->aligned));
    for (int i = 0; i < LSI_GEMM_N_SETTINGS; i++) {
        lsi_text_append(out, "%s\"%s\": %" PRId64, i > 0 ? ", " : "", lsi_gemm_setting_name(i), e->settings.value[i]);
    }
    lsi_text_append(out, "}, \"microseconds\": ");
    lsi_number_append_real(out, e->microseconds);
    lsi_text_append(out, "}");
}

ls_status lsi_tuning_print(const lsi_tuning *tuning, lsi_text *out)
{
    lsi_text_append(out, "{\"lockstep_gemm_plan\": %d,\n", FORMAT);
    LS_TRY(append_string(out, "device", tuning->device));
    LS_TRY(append_string(out, "library", tuning->library));
    lsi_text_append(out, " \"products\": [");
    for (int i = 0; i < tuning->n; i++) {
        lsi_text_append(out, "%s\n  ", i > 0 ? "," : "");
        append_product(&tuning->entry[i], out);
    }
    lsi_text_append(out, "\n ]}\n");
    return lsi_text_status(out);
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

/* Where a member stands, for messages. */
typedef struct place {
    const char *path;
    int product; /* from 1 */
} place;

static ls_status get_int(const place *at, const json_t *object, const char *name, int64_t lowest, int64_t *out)
{
    const json_t *value = json_object_get(object, name);

    LS_REQUIRE(json_is_integer(value) && json_integer_value(value) >= lowest, LS_ERR_CONFIG,
               "%s: product %d: '%s' is no whole number of at least %lld", at->path, at->product, name,
               (long long)lowest);
    *out = json_integer_value(value);
    return LS_OK;
}

static ls_status get_truth(const place *at, const json_t *object, const char *name, int32_t *out)
{
    const json_t *value = json_object_get(object, name);

    LS_REQUIRE(json_is_boolean(value), LS_ERR_CONFIG, "%s: product %d: '%s' is neither true nor false", at->path,
               at->product, name);
    *out = json_is_true(value);
    return LS_OK;
}

static ls_status get_type(const place *at, const json_t *object, const char *name, int32_t *out)
{
    const char *value = json_string_value(json_object_get(object, name));

    for (int i = 0; i < N_DTYPES && value != NULL; i++) {
        if (strcmp(value, ls_dtype_name(dtypes[i])) == 0) {
            *out = (int32_t)dtypes[i];
            return LS_OK;
        }
    }
    return LS_FAIL(LS_ERR_CONFIG, "%s: product %d: '%s' is none of f32, f16, bf16", at->path, at->product, name);
}

static ls_status get_epilogue(const place *at, const json_t *object, int32_t *out)
{
    const char *value = json_string_value(json_object_get(object, "epilogue"));

    for (int i = 0; i < LSI_GEMM_EPILOGUE_COUNT && value != NULL; i++) {
        if (strcmp(value, epilogues[i]) == 0) {
            *out = i;
            return LS_OK;
        }
    }
    return LS_FAIL(LS_ERR_CONFIG, "%s: product %d: 'epilogue' is none of none, gelu, gelu_bwd", at->path, at->product);
}

static ls_status read_shape(const place *at, const json_t *object, lsi_gemm_shape *out)
{
    LS_TRY(get_int(at, object, "m", 1, &out->m));
    LS_TRY(get_int(at, object, "n", 1, &out->n));
    LS_TRY(get_int(at, object, "k", 1, &out->k));
    LS_TRY(get_truth(at, object, "transpose_a", &out->trans_a));
    LS_TRY(get_truth(at, object, "transpose_b", &out->trans_b));
    LS_TRY(get_type(at, object, "factors", &out->factors));
    LS_TRY(get_type(at, object, "result", &out->c));
    LS_TRY(get_truth(at, object, "tf32", &out->tf32));
    LS_TRY(get_truth(at, object, "bias", &out->bias));
    LS_TRY(get_epilogue(at, object, &out->epilogue));
    return get_truth(at, object, "aligned", &out->aligned);
}

static ls_status read_product(const place *at, const json_t *object, lsi_tuned *out)
{
    const json_t *algorithm = json_object_get(object, "algorithm");
    const json_t *microseconds = json_object_get(object, "microseconds");

    LS_TRY(read_shape(at, object, &out->shape));
    LS_REQUIRE(json_is_object(algorithm), LS_ERR_CONFIG, "%s: product %d: 'algorithm' is no object", at->path,
               at->product);
    for (int i = 0; i < LSI_GEMM_N_SETTINGS; i++) {
        LS_TRY(get_int(at, algorithm, lsi_gemm_setting_name(i), 0, &out->settings.value[i]));
    }
    LS_REQUIRE(json_is_number(microseconds) && json_number_value(microseconds) >= 0, LS_ERR_CONFIG,
               "%s: product %d: 'microseconds' is no time", at->path, at->product);
    out->microseconds = json_number_value(microseconds);
    return LS_OK;
}

static ls_status read_text(const char *path, const json_t *root, const char *name, char **out)
{
    const char *value = json_string_value(json_object_get(root, name));

    LS_REQUIRE(value != NULL, LS_ERR_CONFIG, "%s: '%s' is no text", path, name);
    return lsi_memory_strdup(value, out);
}

static ls_status read_root(const char *path, const json_t *root, lsi_tuning *out)
{
    const json_t *format = json_object_get(root, "lockstep_gemm_plan"), *products = json_object_get(root, "products");
    size_t n = json_array_size(products);

    LS_REQUIRE(json_is_integer(format), LS_ERR_CONFIG,
               "%s: not a plan of matrix products; trainer --tune-gemm FILE CONFIG makes one", path);
    LS_REQUIRE(json_integer_value(format) == FORMAT, LS_ERR_CONFIG, "%s: written in format %lld; this build reads %d",
               path, (long long)json_integer_value(format), FORMAT);
    LS_TRY(read_text(path, root, "device", &out->device));
    LS_TRY(read_text(path, root, "library", &out->library));
    LS_REQUIRE(json_is_array(products) && n <= PRODUCTS_LIMIT, LS_ERR_CONFIG, "%s: 'products' is no list of at most %d",
               path, PRODUCTS_LIMIT);
    LS_TRY(lsi_memory_alloc((n + 1) * sizeof *out->entry, "plan of matrix products", (void **)&out->entry));
    for (size_t i = 0; i < n; i++) {
        place at = {path, (int)i + 1};
        lsi_tuned entry = {0};

        LS_TRY(read_product(&at, json_array_get(products, i), &entry));
        LS_REQUIRE(lsi_tuning_find(out, &entry.shape) == NULL, LS_ERR_CONFIG, "%s: product %d, %s, is there twice",
                   path, at.product, lsi_gemm_shape_text(&entry.shape).text);
        out->entry[out->n++] = entry;
    }
    return lsi_tuning_seal(out);
}

ls_status lsi_tuning_parse(const char *path, const char *text, size_t size, lsi_tuning *out)
{
    json_error_t error = {0};
    json_t *root = json_loadb(text, size, JSON_REJECT_DUPLICATES, &error);

    *out = (lsi_tuning){0};
    LS_REQUIRE(root != NULL, LS_ERR_CONFIG, "%s:%d: not a plan of matrix products: %s", path, error.line, error.text);
    ls_status status = read_root(path, root, out);
    json_decref(root);
    if (status != LS_OK) {
        lsi_tuning_free(out);
    }
    return status;
}
