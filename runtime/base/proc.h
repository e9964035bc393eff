/* Facts that Linux tells as text. */
#ifndef LSI_BASE_PROC_H
#define LSI_BASE_PROC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Value of the first line "key : value" of the file, without white space around it; cut at the room. */
bool lsi_proc_find(const char *path, const char *key, char *out, size_t room);
/* The number that the file consists of. */
bool lsi_proc_number(const char *path, uint64_t *out);
enum { LSI_PROC_BOOT_ID = 40 };
/* What tells this start of the machine from all others; "": the system does not say. */
void lsi_proc_boot_id(char out[LSI_PROC_BOOT_ID]);
/* What the machine, or the container that this is in, has and has left for programs. */
bool lsi_proc_memory(size_t *free_bytes, size_t *total_bytes);
/* Bytes of this process in memory: now, and at the most so far. False where the system does not tell. */
bool lsi_proc_resident(int64_t *now, int64_t *most);

#endif
