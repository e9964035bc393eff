/* The collectives that move bytes and add nothing. */
#include "comm/transport_mpi.h"

#include <string.h>

#include "base/tsan.h"

enum { TAG_EXCHANGE = LSI_TAG_MOVE, TAG_BROADCAST };

/* The messages are small: everybody tells everybody, in one wait. */
ls_status lsi_exchange_run(lsi_mpi_comm *comm, const lsi_mpi_collective *collective)
{
    const lsi_mpi_exchange *exchange = &collective->u.exchange;
    int rank = comm->head.rank, world = comm->head.world;
    size_t bytes = collective->bytes;
    char *all = exchange->all;

    for (int i = 1; i < world; i++) {
        int peer = (rank + i) % world;

        LS_TRY(lsi_messages_receive(comm, &comm->exchange, all + (size_t)peer * bytes, bytes, peer, TAG_EXCHANGE));
    }
    for (int i = 1; i < world; i++) {       /* each begins with its right neighbour: no rank is everybody's first */
        LS_TRY(lsi_messages_send(comm, &comm->exchange, exchange->mine, bytes, (rank + i) % world, TAG_EXCHANGE));
    }
    if (all + (size_t)rank * bytes != exchange->mine) {
        memcpy(all + (size_t)rank * bytes, exchange->mine, bytes);
    }
    return lsi_messages_wait(comm, &comm->exchange, "exchanging");
}

void lsi_exchange_declare(const lsi_mpi_comm *comm, const lsi_mpi_collective *collective)
{
    lsi_tsan_reads(collective->u.exchange.mine, collective->bytes);
    lsi_tsan_writes(collective->u.exchange.all, (size_t)comm->head.world * collective->bytes);
}

/* A binomial tree rooted at `root`: counted from there, the parent of v is v without its lowest set bit, and its
 * children are v with one bit below that set. Returns the number of children; *parent is -1 at the root. */
static int find_family(int rank, int world, int root, int *parent, int child[LSI_MPI_MAX_CHILDREN])
{
    int v = (rank - root + world) % world, n = 0;

    *parent = v == 0 ? -1 : ((v & (v - 1)) + root) % world;
    for (int bit = 1; bit < world && (v & bit) == 0; bit *= 2) {
        if (v + bit < world) {
            child[n++] = (v + bit + root) % world;
        }
    }
    return n;
}

ls_status lsi_broadcast_run(lsi_mpi_comm *comm, const lsi_mpi_collective *collective)
{
    const lsi_mpi_broadcast *broadcast = &collective->u.broadcast;
    size_t bytes = collective->bytes, piece = comm->piece_bytes;
    size_t n_pieces = (bytes + piece - 1) / piece;
    int parent, child[LSI_MPI_MAX_CHILDREN];
    int n_children = find_family(comm->head.rank, comm->head.world, broadcast->root, &parent, child);

    /* Step i receives piece i and passes piece i - 1 on, so that the next one arrives meanwhile. */
    for (size_t i = 0; i <= n_pieces; i++) {
        char *next = (char *)broadcast->data + i * piece;

        if (parent >= 0 && i < n_pieces) {
            size_t length = bytes - i * piece < piece ? bytes - i * piece : piece;

            LS_TRY(lsi_messages_receive(comm, &comm->arriving[i % 2], next, length, parent, TAG_BROADCAST));
        }
        if (i == 0) {
            continue;
        }
        size_t length = bytes - (i - 1) * piece < piece ? bytes - (i - 1) * piece : piece;

        LS_TRY(lsi_messages_wait(comm, &comm->arriving[(i - 1) % 2], "receiving a broadcast"));
        LS_TRY(lsi_messages_wait(comm, &comm->forwarding, "passing on a broadcast"));
        for (int k = n_children - 1; k >= 0; k--) {     /* the largest subtree first */
            LS_TRY(lsi_messages_send(comm, &comm->forwarding, next - piece, length, child[k], TAG_BROADCAST));
        }
    }
    return lsi_messages_wait(comm, &comm->forwarding, "passing on a broadcast");
}

void lsi_broadcast_declare(const lsi_mpi_comm *comm, const lsi_mpi_collective *collective)
{
    const lsi_mpi_broadcast *broadcast = &collective->u.broadcast;

    if (broadcast->root == comm->head.rank) {
        lsi_tsan_reads(broadcast->data, collective->bytes);
    } else {
        lsi_tsan_writes(broadcast->data, collective->bytes);
    }
}
