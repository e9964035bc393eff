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
/* Bytes of this process in memory: now, and at the most so far. False where the system does not tell. */
bool lsi_proc_resident(int64_t *now, int64_t *most);

#endif
