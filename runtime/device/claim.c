/* Claims: what a waiting job of higher priority asks the others to leave to it. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/text.h"
#include "device/lease_file.h"

static const char prefix[] = "claim-";

/* ---- one's own ------------------------------------------------------------------------------------------------------
 */

static ls_status create(lsi_leases *leases)
{
    char name[64];

    snprintf(name, sizeof name, "%s%ld-%d", prefix, (long)getpid(), leases->lock_fd);
    LS_TRY(lsi_lease_path(leases, name, leases->claim_path));
    (void)unlink(leases->claim_path); /* of a process that died and had this id */
    LS_TRY(lsi_lease_file_open(leases->claim_path, &leases->claim_fd));
    if (flock(leases->claim_fd, LOCK_EX | LOCK_NB) != 0) {
        int why = errno;

        close(leases->claim_fd);
        leases->claim_fd = -1;
        return LS_FAIL(LS_ERR_DEVICE, "cannot lock the claim %s: %s", leases->claim_path, strerror(why));
    }
    return LS_OK;
}

ls_status lsi_lease_claim(lsi_leases *leases, const lsi_claim *claim)
{
    lsi_text rest = {0};

    if (leases->claim_fd < 0) {
        LS_TRY(create(leases));
    }
    lsi_text_append(&rest, "%d %d\n", (int)claim->priority, claim->n);
    for (int i = 0; i < claim->n_uuids; i++) {
        lsi_text_append(&rest, "%s\n", claim->uuids[i]);
    }
    ls_status status = lsi_text_status(&rest);
    if (status == LS_OK) {
        lsi_lease_holder_write(leases->claim_fd, leases->what, rest.data);
    }
    lsi_text_free(&rest);
    return status;
}

/* The file goes before the lock does, so that nobody finds it unlocked. */
void lsi_lease_unclaim(lsi_leases *leases)
{
    if (leases->claim_fd >= 0) {
        (void)unlink(leases->claim_path);
        close(leases->claim_fd);
        leases->claim_fd = -1;
    }
}

/* ---- those of others
 * ------------------------------------------------------------------------------------------------- */

/* False: no claim can be read, as when its owner died while it wrote. */
static bool parse(int fd, lsi_claim *out)
{
    char text[LSI_LEASE_TEXT];
    int priority, used = 0;

    *out = (lsi_claim){0};
    const char *at = lsi_lease_holder_read(fd, text, &out->owner);
    if (sscanf(at, "%d %d\n%n", &priority, &out->n, &used) != 2 || priority < LSI_PRIORITY_LOW ||
        priority > LSI_PRIORITY_HIGH || out->n < 1) {
        return false;
    }
    out->priority = (lsi_priority)priority;
    for (at += used; *at != '\0' && out->n_uuids < LSI_GPU_MAX;) {
        size_t n = strcspn(at, "\n");

        if (n > 0 && n < LSI_GPU_UUID) {
            snprintf(out->uuids[out->n_uuids++], LSI_GPU_UUID, "%.*s", (int)n, at);
        }
        at += n + (at[n] == '\n');
    }
    return true;
}

/* A file that is not locked is a dead process's: whoever finds it removes it, as far as the folder lets him. */
static bool read_living(const char *path, lsi_claim *out)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    bool living = false;

    if (fd < 0) {
        return false;
    }
    if (flock(fd, LOCK_EX | LOCK_NB) == 0) {
        (void)unlink(path);
    } else {
        living = parse(fd, out);
    }
    close(fd);
    return living;
}

static void insert(lsi_claim *claims, int *n, const lsi_claim *claim)
{
    int at = *n;

    while (at > 0 && claims[at - 1].priority < claim->priority) {
        claims[at] = claims[at - 1];
        at--;
    }
    claims[at] = *claim;
    (*n)++;
}

ls_status lsi_lease_claims(lsi_leases *leases, lsi_claim *out, int *n)
{
    DIR *folder = opendir(leases->folder);
    char path[LSI_LEASE_PATH];
    lsi_claim claim;
    ls_status status = LS_OK;

    *n = 0;
    LS_REQUIRE(folder != NULL, LS_ERR_DEVICE, "cannot read the folder %s: %s", leases->folder, strerror(errno));
    for (struct dirent *entry = readdir(folder); entry != NULL && status == LS_OK; entry = readdir(folder)) {
        if (strncmp(entry->d_name, prefix, sizeof prefix - 1) != 0 || *n == LSI_CLAIMS_MAX) {
            continue;
        }
        status = lsi_lease_path(leases, entry->d_name, path);
        bool own = leases->claim_fd >= 0 && strcmp(path, leases->claim_path) == 0;
        if (status == LS_OK && !own && read_living(path, &claim)) {
            insert(out, n, &claim);
        }
    }
    closedir(folder);
    return status;
}
