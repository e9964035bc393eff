/* What this build is: for --version, the start event and the numeric fingerprint. */
#ifndef LSI_BASE_VERSION_H
#define LSI_BASE_VERSION_H

const char *lsi_version(void);          /* "0.1.0" */
const char *lsi_version_git(void);      /* commit, with -dirty; "unknown" outside a repository */
const char *lsi_version_compiler(void); /* "GNU 12.2.0" */

#endif
