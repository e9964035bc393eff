#include "train/exchange.h"

#include "base/memory.h"
#include "kernels/ops.h"
#include "train/bucket.h"

enum { RECORD = sizeof(ls_slot_record) / sizeof(double) };

void lsi_exchange_owned(const ls_comm *comm, int64_t n, int64_t bucket_bytes, int i, int rank, int64_t *first,
                        int64_t *count)
{
    int64_t bucket_first, bucket_count;

    lsi_bucket_range(n, bucket_bytes, i, &bucket_first, &bucket_count);
    comm->transport->chunk(comm, bucket_count, rank, first, count);
    *first += bucket_first;
}

static int64_t owned_blocks(const ls_comm *comm, int64_t n, int64_t bucket_bytes, int rank)
{
    int64_t blocks = 0;

    for (int i = 0; i < lsi_bucket_number(n, bucket_bytes); i++) {
        int64_t first, count;

        lsi_exchange_owned(comm, n, bucket_bytes, i, rank, &first, &count);
        blocks += count / LSI_BLOCK;
    }
    return blocks;
}

void lsi_exchange_layout(const lsi_geometry *geometry, const ls_comm *comm, int64_t n, int64_t bucket_bytes,
                         lsi_exchange *out)
{
    int64_t most_blocks = 0;

    for (int rank = 0; rank < geometry->world; rank++) {
        int64_t blocks = owned_blocks(comm, n, bucket_bytes, rank);

        most_blocks = blocks > most_blocks ? blocks : most_blocks;
    }
    out->records = LS_EXCHANGE_HEADER;
    out->sums = out->records + geometry->max_local * RECORD;
    out->stride = out->sums + most_blocks;
    out->n_blocks = n / LSI_BLOCK;
    out->n_slots = geometry->n_slots;
}

ls_status lsi_exchange_index(const lsi_exchange *exchange, const lsi_geometry *geometry, const ls_comm *comm, int64_t n,
                             int64_t bucket_bytes, int32_t *block_index, int32_t *record_index)
{
    lsi_place *places;

    LS_REQUIRE(exchange->stride * geometry->world <= INT32_MAX, LS_ERR_CONFIG,
               "%lld scalars to exchange per step are more than an index holds",
               (long long)(exchange->stride * geometry->world));
    LS_TRY(lsi_memory_alloc((size_t)geometry->max_local * sizeof *places, "slot order", (void **)&places));
    for (int rank = 0; rank < geometry->world; rank++) {
        int64_t at = rank * exchange->stride, sum = at + exchange->sums;
        int64_t n_local = lsi_geometry_n_local(geometry, rank);

        lsi_geometry_places(geometry, rank, places);
        for (int64_t j = 0; j < n_local; j++) {
            record_index[places[j].slot] = (int32_t)(at + exchange->records + j * RECORD);
        }
        for (int i = 0; i < lsi_bucket_number(n, bucket_bytes); i++) {
            int64_t first, count;

            lsi_exchange_owned(comm, n, bucket_bytes, i, rank, &first, &count);
            for (int64_t b = 0; b < count / LSI_BLOCK; b++) {
                block_index[first / LSI_BLOCK + b] = (int32_t)sum++;
            }
        }
    }
    lsi_memory_free(places);
    return LS_OK;
}
