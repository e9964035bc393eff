#include "train/bucket.h"

#include "kernels/ops.h"

static int64_t bucket_elements(int64_t bytes)
{
    int64_t blocks = bytes / (int64_t)sizeof(float) / LSI_BLOCK;

    return (blocks > 0 ? blocks : 1) * LSI_BLOCK;
}

int lsi_bucket_number(int64_t n, int64_t bytes)
{
    int64_t elements = bucket_elements(bytes);

    return (int)((n + elements - 1) / elements);
}

void lsi_bucket_range(int64_t n, int64_t bytes, int i, int64_t *first, int64_t *count)
{
    int64_t elements = bucket_elements(bytes), end = n - i * elements;

    *first = end > elements ? end - elements : 0;
    *count = end - *first;
}

bool lsi_bucket_holds(const lsi_bucket *bucket, const lsi_param *param)
{
    return param->offset < bucket->first + bucket->count && bucket->first < param->offset + param->padded_count;
}
