/* One value: from text into ls_config, checked against its row, and back. */
#ifndef LSI_CONFIG_VALUE_H
#define LSI_CONFIG_VALUE_H

#include "base/text.h"
#include "config/table.h"

/* Replaces the value of `key`. `origin` begins the message of a failure, after which the old value stands. */
LS_MUST_USE ls_status lsi_value_set(ls_config *values, const lsi_key *key, const char *text, const char *origin);
/* Frees the text of a text or pick. */
void lsi_value_free(ls_config *values, const lsi_key *key);

/* Appends the value so that it reads back to the same one; quoted where INI needs it. */
void lsi_value_append(const ls_config *values, const lsi_key *key, lsi_text *out);
/* Hash of the value itself: equal values have equal hashes, however they were spelled. */
uint64_t lsi_value_hash(const ls_config *values, const lsi_key *key);

#endif
