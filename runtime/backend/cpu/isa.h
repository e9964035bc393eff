/* ISA levels of the cpu kernels. Every file of kernels/cpu is compiled once per level that the build contains, with
 * LSI_ISA set to its name; the levels are the psABI's. Results may differ between levels, so the level is part of the
 * numeric fingerprint. */
#ifndef LSI_BACKEND_CPU_ISA_H
#define LSI_BACKEND_CPU_ISA_H

#if defined(LSI_BUILD_ISA_X86)
#define LSI_ISA_LEVELS(ROW, argument) ROW(v2, argument) ROW(v3, argument) ROW(v4, argument)
#else
#define LSI_ISA_LEVELS(ROW, argument) ROW(generic, argument)
#endif

typedef enum lsi_isa {
#define LSI_ISA_ENUM(level, unused) LSI_ISA_##level,
    LSI_ISA_LEVELS(LSI_ISA_ENUM, )
#undef LSI_ISA_ENUM
    LSI_ISA_COUNT
} lsi_isa;

/* "x86-64-v4"; "generic". */
const char *lsi_isa_name(lsi_isa isa);
/* Best level that this CPU runs. */
lsi_isa lsi_isa_best(void);
/* Level by name, or -1. */
int lsi_isa_find(const char *name);

#endif
