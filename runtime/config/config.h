/* From file, environment and command line to a resolved configuration. No MPI here: rank 0 resolves, the text that
 * lsi_config_print makes is broadcast, and the other ranks read that. */
#ifndef LSI_CONFIG_CONFIG_H
#define LSI_CONFIG_CONFIG_H

#include "base/text.h"
#include <lockstep/config.h>
#include <lockstep/status.h>

typedef struct lsi_config lsi_config;

/* Precedence: default < file < environment LOCKSTEP_SECTION_KEY < sets ("section.key=value"). Paths in the file resolve
 * against its folder, others against the current folder; all end up absolute. Rules over several keys are checked.
 * `path` NULL: no file. */
LS_MUST_USE ls_status lsi_config_load(const char *path, const char *const *sets, int n_sets, lsi_config **out);
/* The same, with the text of lsi_config_print, kept in a file `name`, in the place of the file. */
LS_MUST_USE ls_status lsi_config_load_printed(const char *name, const char *text, const char *const *sets, int n_sets,
                                              lsi_config **out);
/* For a program of its own. `name` stands in messages for `defaults`, an INI text between default and file (NULL: none),
 * and names log.dir where there is no file. Rules about [model] and [data] are left to lsi_config_check_inputs. */
LS_MUST_USE ls_status lsi_config_load_program(const char *name, const char *defaults, const char *path,
                                              const char *const *sets, int n_sets, lsi_config **out);
/* Whether [model] and [data] name something that can be trained; lsi_config_load has checked it. */
LS_MUST_USE ls_status lsi_config_check_inputs(const lsi_config *config);
/* From the text of lsi_config_print, taken as it is: no environment, no path resolution. */
LS_MUST_USE ls_status lsi_config_parse(const char *text, lsi_config **out);
void lsi_config_destroy(lsi_config **config);

const ls_config *lsi_config_values(const lsi_config *config);
/* train.lanes, resolved: 0 becomes the largest power of two <= min(slots, 8). */
int64_t lsi_config_lanes(const ls_config *config);
/* 16 hex digits over the names and values of all keys that are BITS or FIXED and over what the data set says of its
 * content (ls_dataset.content; NULL: nothing): where the data lies does not matter. */
void lsi_config_hash(const lsi_config *config, const char *content, char out[17]);
/* What a resume must know of the two configurations: appends "train.lanes was 8, now 4", separated by "; ", to
 * `refused` for every FIXED key that differs and to `changed` for every BITS key. Keys count that have an effect in
 * both; lanes are compared as resolved. Texts are empty, not absent, when there is nothing. Fails for memory alone. */
LS_MUST_USE ls_status lsi_config_compare(const lsi_config *then, const lsi_config *now, lsi_text *refused,
                                         lsi_text *changed);
/* Appends an INI that can be fed back, each value's origin as a comment. */
void lsi_config_print(const lsi_config *config, lsi_text *out);
/* Appends every key: type, default, range, what it may change (LSI_DOMAINS), help. */
void lsi_config_describe(lsi_text *out);
/* Keys that were set but have no effect under the chosen kinds: one line of text, empty when there are none. */
void lsi_config_unused(const lsi_config *config, lsi_text *out);

#endif
