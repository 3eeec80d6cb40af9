/* SPDX-License-Identifier: Apache-2.0
 *
 * Value semantics: random programs whose values this file computes itself while it writes them down. A name means
 * the value that it was bound to, whatever is overwritten in place later. Each program is compiled with random
 * options and run on the CPU device in several legal orders; outputs and states must have the same bits. What is
 * drawn: pointwise ops, casts to the same type, loops, extern functions that write in place or consume, slices, layers, states, streams,
 * segments, and old versions that are read, returned, overwritten and consumed again.
 */
#include <stdlib.h>

#include "cpu/cpu.h"
#include "pipeline.h"
#include "runtime/mainstem_rt.h"
#include "unit.h"

enum { ROWS = 8, COLS = 4, SIZE = ROWS * COLS, HALF = SIZE / 2, MAX_VARS = 24, N_STATES = 2, N_OUT = 4 };

/* ---- what the functions do: once for the program, once for the oracle, on plain arrays ---- */

static void dbl(float *a, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        a[i] = a[i] * 0.5f + 1.0f;
}

static void acc(float *a, const float *b, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        a[i] = a[i] - b[i];
}

static void eat(const float *a, float *b, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        b[i] = a[i] * 0.25f;
}

static int call_dbl(const struct stem_call *c, struct CUstream_st *s)
{
    (void)s;
    dbl(c->operands[0], (uint32_t)stem_tensor_elements(&c->tensors[0].tensor));
    return 0;
}

static int call_acc(const struct stem_call *c, struct CUstream_st *s)
{
    (void)s;
    acc(c->operands[0], c->operands[1], (uint32_t)stem_tensor_elements(&c->tensors[0].tensor));
    return 0;
}

/* What it consumes is rubbish afterwards. */
static int call_eat(const struct stem_call *c, struct CUstream_st *s)
{
    uint32_t n = (uint32_t)stem_tensor_elements(&c->tensors[0].tensor);
    (void)s;
    eat(c->operands[0], c->operands[1], n);
    memset(c->operands[0], 0xff, n * sizeof(float));
    return 0;
}

/* Both in place: a -= b, b = b / 2 + 1. */
static int call_mix(const struct stem_call *c, struct CUstream_st *s)
{
    (void)s;
    acc(c->operands[0], c->operands[1], SIZE);
    dbl(c->operands[1], SIZE);
    return 0;
}

static const char head[] = ""
                           "extern dbl(inout a: f32[8, 4]);\n"
                           "extern dblh(inout a: f32[4, 4]);\n"
                           "extern acc(inout a: f32[8, 4], in b: f32[8, 4]);\n"
                           "extern acch(inout a: f32[4, 4], in b: f32[4, 4]);\n"
                           "extern eat(consume a: f32[8, 4], out b: f32[8, 4]);\n"
                           "extern mix(inout a: f32[8, 4], inout b: f32[8, 4]);\n"
                           "layer old_and_new(inout p: f32[8, 4]) -> f32[8, 4] {\n"
                           "  old = p;\n"
                           "  dbl(inout p);\n"
                           "  return old - p;\n"
                           "}\n"
                           "layer twice(inout p: f32[4, 4]) {\n"
                           "  dblh(inout p);\n"
                           "  dblh(inout p);\n"
                           "}\n"
                           "layer both(p: f32[8, 4]) -> f32[8, 4] {\n"
                           "  t = p + 1.0;\n"
                           "  a = dbl(inout t);\n"
                           "  b = acc(inout t, a);\n"
                           "  return b - t;\n"
                           "}\n"
                           "layer same(u: f32[8, 4]) -> f32[8, 4] { return f32(u); }\n"
                           "model m(x: f32[8, 4]) -> (o0: f32[8, 4], o1: f32[8, 4], o2: f32[8, 4], o3: f32[8, 4]) {\n"
                           "  state s0: f32[8, 4];\n"
                           "  state s1: f32[8, 4];\n";

static const struct stem_extern functions[] = {{"dbl", call_dbl},   {"dblh", call_dbl}, {"acc", call_acc},
                                               {"acch", call_acc},  {"eat", call_eat},  {"mix", call_mix}};

/* ---- a program and its values ---- */

/* Memory that names share. Of a state's, only the newest version may be written: the rest is an error. */
struct memory {
    int state; /* -1: temporary */
    uint32_t version;
    float data[SIZE]; /* a state's contents */
};

struct var {
    char name[8];
    bool half;
    bool cast; /* a new value that borrows the memory of another: written, it is in memory of its own */
    bool either; /* a loop carried it together with a state: it counts as one */
    uint32_t memory, version, first; /* first: element of the memory, for states */
    float data[SIZE];
};

struct program {
    uint64_t seed;
    struct stem_out text;
    struct memory memory[512];
    uint32_t n_memory;
    struct var var[MAX_VARS];
    uint32_t n_vars, next_name, n_breaks;
    float input[SIZE], state[N_STATES][SIZE], output[N_OUT][SIZE];
};

static uint32_t below(struct program *p, uint32_t n)
{
    p->seed = p->seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(p->seed >> 33) % n;
}

static uint32_t new_memory(struct program *p, int state)
{
    p->memory[p->n_memory] = (struct memory){.state = state};
    return p->n_memory++;
}

static bool fresh(const struct program *p, const struct var *v)
{
    return v->version == p->memory[v->memory].version;
}

static bool may_write(const struct program *p, const struct var *v)
{
    return v->cast || p->memory[v->memory].state < 0 || fresh(p, v);
}

/* A variable whose name is bound to new contents: a new one, or in the place of an old one. */
static struct var *new_var(struct program *p, bool half)
{
    uint32_t i = p->n_vars < MAX_VARS ? p->n_vars++ : 1 + below(p, MAX_VARS - 1);
    struct var *v = &p->var[i];
    memset(v, 0, sizeof *v);
    snprintf(v->name, sizeof v->name, "v%u", p->next_name++);
    v->half = half;
    return v;
}

static struct var *new_temp(struct program *p, bool half)
{
    struct var *v = new_var(p, half);
    v->memory = new_memory(p, -1);
    return v;
}

/* Some variable that fits, by value: the original may be replaced. After a break only names whose memory still holds
 * their version can be read. */
static bool pick(struct program *p, bool half, bool to_write, struct var **out)
{
    for (int tries = 0; tries < 20; tries++) {
        struct var *v = &p->var[below(p, p->n_vars)];
        if (v->half == half && (to_write ? may_write(p, v) && strcmp(v->name, "x") : !p->n_breaks || fresh(p, v))) {
            *out = v;
            return true;
        }
    }
    return false;
}

/* `v` becomes what an in-place op made of it. A state remembers; a temporary one that was written before is now in
 * memory of its own. */
static void written(struct program *p, struct var *v)
{
    struct memory *m = &p->memory[v->memory];
    if (v->cast || !fresh(p, v)) {
        v->cast = false;
        v->memory = new_memory(p, -1);
        v->version = 1;
        p->memory[v->memory].version = 1;
        return;
    }
    v->version = ++m->version;
    if (m->state >= 0)
        memcpy(m->data + v->first, v->data, (v->half ? HALF : SIZE) * sizeof(float));
}

static const char *where(struct program *p)
{
    static const char *const text[] = {"", "", " on side", " on main"};
    return text[below(p, 4)];
}

/* ---- statements ---- */

static void pointwise(struct program *p)
{
    struct var *a, *b, left, right;
    bool half = below(p, 4) == 0;
    if (!pick(p, half, false, &a) || !pick(p, half, false, &b))
        return;
    left = *a;
    right = *b;
    struct var *v = new_temp(p, half);
    stem_out_printf(&p->text, "  %s = %s - %s%s;\n", v->name, left.name, right.name, where(p));
    for (uint32_t i = 0; i < SIZE; i++)
        v->data[i] = left.data[i] - right.data[i];
}

static void alias(struct program *p)
{
    struct var *a, copy, *v;
    bool slice = below(p, 2);
    uint32_t first = below(p, 2) * HALF;
    if (!pick(p, false, false, &a) || !strcmp(a->name, "x"))
        return;
    copy = *a;
    v = new_var(p, slice);
    char name[8];
    memcpy(name, v->name, sizeof name);
    *v = copy;
    memcpy(v->name, name, sizeof name);
    if (!slice) {
        stem_out_printf(&p->text, "  %s = %s;\n", v->name, copy.name);
        return;
    }
    v->half = true;
    v->first += first;
    memset(v->data, 0, sizeof v->data);
    memcpy(v->data, copy.data + first, HALF * sizeof(float));
    stem_out_printf(&p->text, "  %s = %s[%u:%u, :];\n", v->name, copy.name, first / COLS, first / COLS + ROWS / 2);
}

/* f32(a), which computes nothing and is a value of its own all the same: also of the input, a part, a part with gaps. */
static void cast(struct program *p)
{
    static const char *const forms[] = {"f32(%s)", "view(f32(%s), [8, 4])", "f32(view(%s, [8, 4]))", "same(%s)",
                                        "f32(%s[0:4, :])", "view(f32(%s[:, 0:2]), [4, 4])"};
    uint32_t form = below(p, sizeof forms / sizeof *forms);
    struct var *a, copy, *v;
    if (!pick(p, false, false, &a))
        return;
    copy = *a;
    v = new_var(p, form >= 4);
    char name[8], text[64];
    memcpy(name, v->name, sizeof name);
    *v = copy;
    memcpy(v->name, name, sizeof name);
    v->half = form >= 4;
    v->cast = form != 5; /* its gaps are closed by a copy */
    v->either = false;
    if (form == 5)
        v->memory = new_memory(p, -1), v->version = 0;
    snprintf(text, sizeof text, forms[form], copy.name);
    stem_out_printf(&p->text, "  %s = %s;\n", v->name, text);
    if (form == 4)
        memset(v->data + HALF, 0, HALF * sizeof(float));
    for (uint32_t i = 0; form == 5 && i < SIZE; i++)
        v->data[i] = i < HALF ? copy.data[i / 2 * COLS + i % 2] : 0;
}

/* f(inout a), acc(inout a, b), with and without a new name. */
static void in_place(struct program *p)
{
    struct var *a, *b, with;
    bool half = below(p, 4) == 0, adds = below(p, 2), rebind = below(p, 2);
    if (!pick(p, half, true, &a) || !pick(p, half, false, &b))
        return;
    with = *b;
    struct var made = *a;
    written(p, &made);
    if (adds)
        acc(made.data, with.data, half ? HALF : SIZE);
    else
        dbl(made.data, half ? HALF : SIZE);
    if (p->memory[made.memory].state >= 0)
        memcpy(p->memory[made.memory].data + made.first, made.data, (half ? HALF : SIZE) * sizeof(float));
    char old[8];
    memcpy(old, a->name, sizeof old);
    struct var *v = rebind ? a : new_var(p, half);
    memcpy(made.name, v->name, sizeof made.name);
    *v = made;
    if (!rebind)
        stem_out_printf(&p->text, "  %s = ", v->name);
    stem_out_printf(&p->text, "%s%s%s(inout %s%s%s)%s;\n", rebind ? "  " : "", adds ? "acc" : "dbl", half ? "h" : "",
                    old, adds ? ", " : "", adds ? with.name : "", where(p));
}

/* dblh(inout a[0:4, :]): a as a whole has a new version; or the part gets a name. */
static void in_place_part(struct program *p)
{
    struct var *a;
    bool layer = below(p, 2), rebind = layer || below(p, 2);
    uint32_t first = below(p, 2) * HALF;
    if (!pick(p, false, true, &a) || (layer && !fresh(p, a) && p->memory[a->memory].state >= 0))
        return;
    struct var made = *a;
    char old[8];
    memcpy(old, a->name, sizeof old);
    for (int i = 0; i <= layer; i++)
        dbl(made.data + first, HALF);
    written(p, &made);
    struct var *v = rebind ? a : new_var(p, true);
    if (!rebind) {
        made.half = true;
        made.first += first;
        memmove(made.data, made.data + first, HALF * sizeof(float));
    }
    memcpy(made.name, v->name, sizeof made.name);
    *v = made;
    if (!rebind)
        stem_out_printf(&p->text, "  %s =", v->name);
    stem_out_printf(&p->text, "  %s(inout %s[%u:%u, :])%s;\n", layer ? "twice" : "dblh", old, first / COLS,
                    first / COLS + ROWS / 2, where(p));
}

/* Both halves of a state from one version. */
static void in_place_apart(struct program *p)
{
    struct var *s;
    if (!pick(p, false, true, &s) || p->memory[s->memory].state < 0 || s->cast)
        return;
    struct var old = *s, whole = *s;
    bool reads = below(p, 2); /* the second also reads what the first overwrites */
    dbl(whole.data, reads ? HALF : SIZE);
    if (reads)
        acc(whole.data + HALF, old.data, HALF);
    written(p, &whole);
    for (uint32_t first = 0; first < SIZE; first += HALF) {
        struct var *v = new_var(p, true), made = whole;
        memcpy(made.name, v->name, sizeof made.name);
        made.half = true;
        made.first += first;
        memmove(made.data, made.data + first, HALF * sizeof(float));
        *v = made;
        bool with = reads && first;
        stem_out_printf(&p->text, "  %s = %s(inout %s[%u:%u, :]%s%s%s)%s;\n", v->name, with ? "acch" : "dblh",
                        old.name, first / COLS, first / COLS + ROWS / 2, with ? ", " : "", with ? old.name : "",
                        with ? "[0:4, :]" : "", where(p));
    }
}

static void consume(struct program *p)
{
    struct var *a;
    if (!pick(p, false, true, &a) || a->either || (p->memory[a->memory].state >= 0 && !a->cast))
        return;
    struct var old = *a, gone = *a;
    written(p, &gone); /* nobody sees it */
    struct var *v = new_temp(p, false);
    eat(old.data, v->data, SIZE);
    stem_out_printf(&p->text, "  %s = eat(consume %s)%s;\n", v->name, old.name, where(p));
}

static void mixed(struct program *p)
{
    struct var *a, *b;
    if (!pick(p, false, true, &a) || !pick(p, false, true, &b) || a->memory == b->memory)
        return;
    acc(a->data, b->data, SIZE);
    dbl(b->data, SIZE);
    written(p, a);
    written(p, b);
    stem_out_printf(&p->text, "  mix(inout %s, inout %s)%s;\n", a->name, b->name, where(p));
}

static void layers(struct program *p)
{
    struct var *a, *v, old;
    if (below(p, 2)) {
        if (!pick(p, false, false, &a))
            return;
        old = *a;
        v = new_temp(p, false);
        for (uint32_t i = 0; i < SIZE; i++) {
            float t = old.data[i] + 1.0f, d = t * 0.5f + 1.0f, s = t - d;
            v->data[i] = s - t;
        }
        stem_out_printf(&p->text, "  %s = both(%s)%s;\n", v->name, old.name, where(p));
        return;
    }
    if (!pick(p, false, true, &a))
        return;
    old = *a;
    dbl(a->data, SIZE);
    written(p, a);
    struct var now = *a;
    v = new_temp(p, false);
    if (v == a) /* its place was taken: it is bound, but not used again */
        a = NULL;
    for (uint32_t i = 0; i < SIZE; i++)
        v->data[i] = old.data[i] - now.data[i];
    stem_out_printf(&p->text, "  %s, %s = old_and_new(inout %s)%s;\n", now.name, v->name, now.name, where(p));
}

/* Two names that change places in each iteration, so that one write is to the memory of both. */
static void loop(struct program *p)
{
    struct var *a, *b;
    uint32_t n = 1 + below(p, 3);
    if (!pick(p, false, true, &a) || !pick(p, false, true, &b) || a->memory == b->memory)
        return;
    stem_out_printf(&p->text, "  repeat %u { dbl(inout %s)%s; other = %s; %s = %s; %s = other; }\n", n, a->name, where(p),
                    a->name, a->name, b->name, b->name);
    bool either = a->either || b->either || (!a->cast && p->memory[a->memory].state >= 0) ||
                  (!b->cast && p->memory[b->memory].state >= 0);
    for (; n; n--) {
        struct var was = *a;
        dbl(was.data, SIZE);
        written(p, &was);
        *a = *b;
        *b = was;
        memcpy(b->name, a->name, sizeof b->name);
        memcpy(a->name, was.name, sizeof a->name);
    }
    a->either = b->either = either;
}

static void segment(struct program *p)
{
    if (p->n_breaks == 2 || below(p, 3))
        return;
    p->n_breaks++;
    stem_out_str(&p->text, "  break;\n");
}

static void statement(struct program *p)
{
    static void (*const kinds[])(struct program *) = {
        pointwise, pointwise, alias, cast, cast, in_place, in_place, in_place, in_place_part, in_place_apart, consume,
        mixed,     layers,    loop,  segment};
    if (p->n_memory + 4 < sizeof p->memory / sizeof *p->memory)
        kinds[below(p, sizeof kinds / sizeof *kinds)](p);
}

static void generate(struct program *p, uint64_t seed)
{
    *p = (struct program){.seed = seed * 977 + 13};
    stem_out_str(&p->text, head);
    for (int s = -1; s < N_STATES; s++) {
        struct var *v = &p->var[p->n_vars++];
        snprintf(v->name, sizeof v->name, s < 0 ? "x" : "s%d", s);
        v->memory = new_memory(p, s);
        for (uint32_t i = 0; i < SIZE; i++)
            v->data[i] = (float)((int)below(p, 64) - 32);
        memcpy(s < 0 ? p->input : p->state[s], v->data, sizeof v->data);
        memcpy(p->memory[v->memory].data, v->data, sizeof v->data);
    }
    struct var *v = new_temp(p, false);
    stem_out_printf(&p->text, "  %s = x - s0;\n", v->name);
    for (uint32_t i = 0; i < SIZE; i++)
        v->data[i] = p->input[i] - p->state[0][i];
    for (uint32_t n = 4 + below(p, 16); n; n--)
        statement(p);
    stem_out_str(&p->text, "  return ");
    for (uint32_t i = 0; i < N_OUT; i++) {
        struct var *r = &p->var[0];
        while (!strcmp(r->name, "x"))
            if (!pick(p, false, false, &r))
                r = v = &p->var[1 + below(p, 2)];
        stem_out_printf(&p->text, "%s%s", i ? ", " : "", r->name);
        memcpy(p->output[i], r->data, sizeof r->data);
    }
    stem_out_str(&p->text, ";\n}\n");
}

/* ---- running it ---- */

static struct stem_compiled *compile(struct program *p, bool *refused)
{
    struct stem_compile_args a = {.path = "values.stem", .text = stem_out_text(&p->text), .len = p->text.len,
                                  .options = stem_options_default()};
    struct stem_pass_hooks hooks = {.check_each = true};
    a.hooks = &hooks;
    a.options.inplace = (enum stem_inplace)below(p, 3);
    a.options.one_stream = below(p, 8) == 0;
    a.options.no_fuse = below(p, 3) == 0;
    a.options.max_streams = 1 + below(p, 4);
    struct stem_compiled *c = stem_pipeline(&a);
    *refused = stem_diags_errors(c->diags) > 0;
    if (!*refused)
        return c;
    struct stem_out o = {0};
    stem_diags_print(c->diags, (struct stem_diag_style){.no_warnings = true}, &o);
    fprintf(stderr, "\n%s\n%s\n", stem_out_text(&p->text), stem_out_text(&o));
    stem_out_free(&o);
    return c;
}

/* The right bits of an external buffer, before (outputs: NaN) or after the run. */
static void contents(const struct program *p, const char *name, bool after, float *out)
{
    memset(out, 0xff, SIZE * sizeof *out);
    if (name[0] == 'x')
        memcpy(out, p->input, sizeof p->input);
    else if (name[0] == 's')
        memcpy(out, after ? p->memory[1 + name[1] - '0'].data : p->state[name[1] - '0'], sizeof p->input);
    else if (after)
        memcpy(out, p->output[name[1] - '0'], sizeof p->input);
}

static bool run_once(struct program *p, const struct stem_plan *plan, struct stem_cpu *cpu,
                     const struct stem_cpu_options *o)
{
    float data[8][SIZE], want[SIZE];
    char *error = NULL;
    bool ok = plan->n_external <= 8;
    for (uint32_t i = 0; ok && i < plan->n_external; i++) {
        contents(p, plan->variants[0].buffers[i].name, false, data[i]);
        stem_cpu_bind(cpu, 0, i, data[i]);
    }
    ok = ok && stem_cpu_run(cpu, 0, o, &error);
    for (uint32_t i = 0; ok && i < plan->n_external; i++) {
        contents(p, plan->variants[0].buffers[i].name, true, want);
        if (!memcmp(want, data[i], sizeof want))
            continue;
        fprintf(stderr, "\n%s'%s' is wrong, order %d, edges %d: %g, not %g\n", stem_out_text(&p->text),
                plan->variants[0].buffers[i].name, (int)o->order, o->use_edges, (double)data[i][0], (double)want[0]);
        ok = false;
    }
    if (error)
        fprintf(stderr, "%s\n", error);
    free(error);
    return ok;
}

static bool right(struct program *p)
{
    bool refused, ok = true;
    struct stem_compiled *c = compile(p, &refused);
    char *error = NULL;
    struct stem_cpu *cpu = refused ? NULL : stem_cpu_new(c->plan, &error);
    for (uint32_t i = 0; cpu && i < sizeof functions / sizeof *functions; i++)
        stem_cpu_extern(cpu, functions[i].name, functions[i].fn);
    for (uint32_t i = 0; cpu && ok && i < 5; i++) {
        struct stem_cpu_options o = {.order = i == 0 ? STEM_CPU_ISSUE : i == 1 ? STEM_CPU_LAST : STEM_CPU_RANDOM,
                                     .seed = i, .use_edges = i % 2, .poison = true};
        ok = run_once(p, c->plan, cpu, &o);
    }
    ok = ok && cpu;
    free(error);
    stem_cpu_free(cpu);
    stem_compiled_free(c);
    return ok;
}

static void test_values(void)
{
    const char *texts = getenv("VALUES_TEXTS"), *only = getenv("VALUES_SEED");
    uint32_t first = only ? (uint32_t)atoi(only) : 0, n = only ? first + 1 : texts ? (uint32_t)atoi(texts) : 400, wrong = 0;
    struct program *p = malloc(sizeof *p);
    for (uint32_t i = first; i < n && wrong < 5; i++) {
        generate(p, i);
        if (!right(p)) {
            fprintf(stderr, "seed %u\n", i);
            wrong++;
        }
        stem_out_free(&p->text);
    }
    free(p);
    CU_ASSERT_EQUAL(wrong, 0);
}

UNIT_MAIN("values", {"random programs have the values that their text says", test_values})
