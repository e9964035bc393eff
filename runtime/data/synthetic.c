/* Made-up data, a pure function of (train.seed, index). For mlp a point near the centre of its class, which can be
 * learned; for gpt random tokens, which cannot. */
#include "data/datasets.h"

#include <string.h>

#include "base/memory.h"
#include "base/random.h"
#include "base/text.h"

/* Streams of random numbers, by key. Counters: (index, position), each 64 bits. */
static const uint64_t class_stream = 0x53594E434C415353u, centre_stream = 0x53594E43454E5452u;
static const uint64_t noise_stream = 0x53594E4E4F495345u, token_stream = 0x53594E544F4B454Eu;

enum { DEFAULT_VOCABULARY = 256 };

typedef struct synthetic_dataset {
    ls_dataset base;
    uint64_t seed;
    int64_t classes;                /* that occur: at most n_classes */
    lsi_text description, content;
} synthetic_dataset;

static void synthetic_close(ls_dataset *dataset)
{
    synthetic_dataset *synthetic = (synthetic_dataset *)dataset;

    lsi_text_free(&synthetic->description);
    lsi_text_free(&synthetic->content);
    lsi_memory_free(synthetic);
}

static lsi_random4 draw(const synthetic_dataset *synthetic, uint64_t stream, int64_t index, int64_t position)
{
    uint64_t i = (uint64_t)index, p = (uint64_t)position;

    return lsi_random_philox(lsi_random_key(synthetic->seed, stream), (uint32_t)i, (uint32_t)(i >> 32), (uint32_t)p,
                             (uint32_t)(p >> 32));
}

/* Uniform in [0, n), n < 2^32. */
static int32_t below(uint32_t bits, int64_t n)
{
    return (int32_t)(((uint64_t)bits * (uint64_t)n) >> 32);
}

/* Sum of four uniforms, shifted to mean 0: nearly normal with variance 1/3, and the same bits on every machine. */
static float noise(lsi_random4 r)
{
    return lsi_random_unit(r.v[0]) + lsi_random_unit(r.v[1]) + lsi_random_unit(r.v[2]) + lsi_random_unit(r.v[3]) - 2.0f;
}

static ls_status read_point(const ls_dataset *dataset, int64_t index, void *input, void *targets)
{
    const synthetic_dataset *synthetic = (const synthetic_dataset *)dataset;
    int32_t class = below(draw(synthetic, class_stream, index, 0).v[0], synthetic->classes);
    int64_t features = dataset->input_shape.dim[0];
    float *value = input;
    int32_t *label = targets;

    for (int64_t i = 0; i < features; i++) {
        float centre = 2.0f * lsi_random_unit(draw(synthetic, centre_stream, class, i).v[0]) - 1.0f;

        value[i] = centre + noise(draw(synthetic, noise_stream, index, i));
    }
    *label = class;
    return LS_OK;
}

static ls_status read_tokens(const ls_dataset *dataset, int64_t index, void *input, void *targets)
{
    const synthetic_dataset *synthetic = (const synthetic_dataset *)dataset;
    int64_t context = dataset->target_count;
    int32_t *token = input, *target = targets;

    for (int64_t i = 0; i <= context; i += 4) {
        lsi_random4 r = draw(synthetic, token_stream, index, i / 4);

        for (int64_t j = i; j < i + 4 && j <= context; j++) {
            int32_t id = below(r.v[j - i], synthetic->classes);

            if (j < context) {
                token[j] = id;
            }
            if (j > 0) {
                target[j - 1] = id;
            }
        }
    }
    return LS_OK;
}

static const ls_dataset_ops point_ops = {sizeof(ls_dataset_ops), "synthetic", synthetic_close, read_point};
static const ls_dataset_ops token_ops = {sizeof(ls_dataset_ops), "synthetic", synthetic_close, read_tokens};

static ls_status describe(const ls_config *config, synthetic_dataset *synthetic)
{
    int64_t vocab = config->model.vocab;

    if (strcmp(config->model.kind, "gpt") == 0) {
        synthetic->classes = vocab > 0 ? vocab : DEFAULT_VOCABULARY;
        synthetic->base = (ls_dataset){.ops = &token_ops, .input_dtype = LS_I32,
                                       .input_shape = ls_shape1(config->model.context),
                                       .target_count = config->model.context, .n_classes = synthetic->classes};
        lsi_text_append(&synthetic->description, "synthetic: %lld windows of %lld random tokens below %lld",
                        (long long)config->data.samples, (long long)config->model.context,
                        (long long)synthetic->classes);
    } else {
        synthetic->classes = config->data.classes;
        LS_REQUIRE(vocab == 0 || vocab >= synthetic->classes, LS_ERR_CONFIG,
                   "model.vocab = %lld is less than data.classes = %lld", (long long)vocab,
                   (long long)synthetic->classes);
        synthetic->base = (ls_dataset){.ops = &point_ops, .input_dtype = LS_F32,
                                       .input_shape = ls_shape1(config->data.features), .target_count = 1,
                                       .n_classes = vocab > 0 ? vocab : synthetic->classes};
        lsi_text_append(&synthetic->description, "synthetic: %lld points of %lld features, %lld classes",
                        (long long)config->data.samples, (long long)config->data.features,
                        (long long)synthetic->classes);
    }
    synthetic->base.n_samples = config->data.samples;
    synthetic->base.description = synthetic->description.data;
    LS_TRY(lsi_text_status(&synthetic->description));
    lsi_text_append(&synthetic->content, "%s, seed %llu", synthetic->description.data,
                    (unsigned long long)synthetic->seed);
    synthetic->base.content = synthetic->content.data;
    return lsi_text_status(&synthetic->content);
}

ls_status lsi_dataset_synthetic(const ls_config *config, ls_dataset **out)
{
    void *memory;

    LS_TRY(lsi_memory_alloc(sizeof(synthetic_dataset), "synthetic data set", &memory));
    synthetic_dataset *synthetic = memory;

    synthetic->seed = (uint64_t)config->train.seed;
    ls_status status = describe(config, synthetic);

    if (status != LS_OK) {
        synthetic_close(&synthetic->base);
        return status;
    }
    *out = &synthetic->base;
    return LS_OK;
}
