#include "train/bucket.h"

#include "kernels/ops.h"

enum { MOST_BUCKETS = 1 << 24 };

static int64_t bucket_elements(int64_t bytes)
{
    int64_t blocks = bytes / (int64_t)sizeof(float) / LSI_BLOCK;

    return (blocks > 0 ? blocks : 1) * LSI_BLOCK;
}

static int64_t number(int64_t n, int64_t bytes)
{
    int64_t elements = bucket_elements(bytes);

    return (n + elements - 1) / elements;
}

ls_status lsi_bucket_check(int64_t n, int64_t bytes)
{
    LS_REQUIRE(number(n, bytes) <= MOST_BUCKETS, LS_ERR_CONFIG,
               "comm.bucket_bytes = %lld cuts the gradients of %lld elements into %lld buckets, more than %d; raise it",
               (long long)bytes, (long long)n, (long long)number(n, bytes), MOST_BUCKETS);
    return LS_OK;
}

int lsi_bucket_number(int64_t n, int64_t bytes)
{
    return (int)number(n, bytes);
}

void lsi_bucket_range(int64_t n, int64_t bytes, int i, int64_t *first, int64_t *count)
{
    int64_t elements = bucket_elements(bytes), end = n - i * elements;

    *first = end > elements ? end - elements : 0;
    *count = end - *first;
}
