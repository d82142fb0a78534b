/*
 * Statements as sections: the hooks that begin and end them.
 *
 *   simple       analyze ── plan ── start ── run ──────────── finish ── end        one message
 *   extended     analyze │  plan ── start │ run ──────────── finish ── end         Parse │ Bind │ Execute ... Sync
 *                        begin            begin, if the client let us wait here
 *                                                 end of SELECT    end of what writes (its triggers are in finish)
 *
 * Rules:
 *   - Only the outermost statement of a client's backend is a section; what its functions and triggers execute is part of it. The
 *     statements of a procedure and of DO are outermost ones: the procedure itself is none (utility statements are none), and so are
 *     the queries within EXPLAIN ANALYZE, EXECUTE, CREATE TABLE AS and COPY.
 *   - A section never waits for the client: each later FETCH from a cursor is a section of its own,
 *     of the same kind.
 *   - An error ends the section, and it counts, if execution had begun; else it is dropped. Errors
 *     longjmp past the hooks: transaction callbacks report them.
 *   - A statement of a long kind may wait for its turn within its section, just before it is
 *     executed (admission.c).
 *   - Parallel workers are separate processes and do not measure: their work is not in the leader's
 *     section. They get the time slice of the leader's kind, whose query id the server passes to
 *     them.
 */
#include "admission.h"
#include "extension.h"

#include "access/parallel.h"
#include "access/xact.h"
#include "miscadmin.h"
#include "nodes/plannodes.h"
#include "optimizer/planner.h"
#include "parser/analyze.h"
#include "parser/parsetree.h"
#include "tcop/utility.h"
#include "utils/lsyscache.h"
#include "utils/timestamp.h"

#include "hm_statement.h"
#include "origin.h"
#include "split.h"

#define NOTE_LENGTH 63 /* the library's limit (SPLIT_NOTE_TEXT) */
#define NOTE_TABLES 3
#define CODES 65536 /* maximum number of kinds (SPLIT_HASH_SIZE) */
/* A client that sends Bind and Execute together sends them within a millisecond. */
#define PIPELINED_US 1000

static post_parse_analyze_hook_type previous_analyze = NULL;
static planner_hook_type previous_planner = NULL;
static ExecutorStart_hook_type previous_start = NULL;
static ExecutorRun_hook_type previous_run = NULL;
static ExecutorFinish_hook_type previous_finish = NULL;
static ExecutorEnd_hook_type previous_end = NULL;
static ProcessUtility_hook_type previous_utility = NULL;

/* Nesting depth of planners and executors, and of utility statements. */
static int depth = 0, utilities = 0;

static struct {
  bool open;
  uint64 query_id;
  QueryDesc *query;    /* NULL: not executed yet */
  TimestampTz touched; /* end of planning or starting; 0: not reached */
  split_code_id code;
  split_section section;
} own;

/* Kinds whose text this backend has passed to the library: one bit each. */
static uint64 noted[CODES / 64];

static bool is_outermost(void) {
  return split_ready && split_engine && depth == 0 && MyBackendType == B_BACKEND;
}

/* Beginning and ending ---------------------------------------------------------------------- */

static void forget(void) {
  admission_leave();
  if (own.open) split_cancel(&own.section);
  own.open = false;
}

static void end(void) {
  split_finish(&own.section);
  own.open = false;
  admission_leave();
}

/* For a statement without a query_id (compute_query_id is off): its StatementId. */
static uint64 id_of_text(const char *text, size_t length) {
  char normalised[HM_STATEMENT_LONGEST];
  uint64 id = hm_statement_id(
      normalised, hm_statement_normalise(HM_DIALECT_POSTGRES, text, length, normalised, NULL));
  return id == 0 ? 1 : id;
}

/* The statement within the text of its packet. */
static const char *statement_in(const char *text, int location, int length, size_t *result) {
  size_t whole = strlen(text), from = location > 0 ? (size_t)location : 0;
  if (from > whole) from = whole;
  *result = length > 0 && (size_t)length <= whole - from ? (size_t)length : whole - from;
  return text + from;
}

static void begin(uint64 query_id, const char *text, int location, int length) {
  const char *origin;
  size_t statement_length, origin_length;

  forget();
  own.query_id = query_id;
  own.query = NULL;
  own.touched = 0;
  if (text == NULL) text = "";
  const char *statement = statement_in(text, location, length, &statement_length);
  uint64 key = query_id != 0 ? query_id : id_of_text(statement, statement_length);
  own.code = split_begin(&own.section, 0, &key, sizeof key);
  own.open = true;
  /* From the packet: a comment after the last semicolon applies to all of it. */
  origin_length = sql_origin(statement, (size_t)(text + strlen(text) - statement), &origin);
  if (origin_length > 0) split_note_section(&own.section, SPLIT_NOTE_ORIGIN, origin, origin_length);
}

/* Whether the server has waited for the client since the end of planning or starting. */
static bool has_waited(void) {
  return own.touched != 0 && GetCurrentStatementStartTimestamp() > own.touched + PIPELINED_US;
}

/* Notes ------------------------------------------------------------------------------------- */

static const char *verb_of(const QueryDesc *query) {
  switch (query->operation) {
    case CMD_SELECT: return "select";
    case CMD_INSERT: return "insert";
    case CMD_UPDATE: return "update";
    case CMD_DELETE: return "delete";
    default: return "merge";
  }
}

/* Once per kind: its StatementId, and a text. "select accounts,branches: select a.bid from ...":
 * tables first, since the text is truncated. */
static void note_kind(const QueryDesc *query) {
  char note[NOTE_LENGTH + 1], normalised[HM_STATEMENT_LONGEST];
  int length, tables = 0;
  ListCell *cell;

  if (own.code <= SPLIT_CODE_OTHER || own.code >= CODES ||
      noted[own.code / 64] & UINT64CONST(1) << own.code % 64)
    return;
  noted[own.code / 64] |= UINT64CONST(1) << own.code % 64;
  length = snprintf(note, sizeof note, "%s", verb_of(query));
  foreach (cell, query->plannedstmt->rtable) {
    const RangeTblEntry *entry = lfirst_node(RangeTblEntry, cell);
    char *name;
    if (entry->rtekind != RTE_RELATION || tables == NOTE_TABLES || length >= NOTE_LENGTH) continue;
    name = get_rel_name(entry->relid);
    if (name == NULL) continue;
    length += snprintf(note + length, sizeof note - (size_t)length, "%s%s",
                       tables++ == 0 ? " " : ",", name);
    pfree(name);
  }
  size_t statement_length;
  const char *statement = statement_in(query->sourceText, query->plannedstmt->stmt_location,
                                       query->plannedstmt->stmt_len, &statement_length);
  size_t written =
      hm_statement_normalise(HM_DIALECT_POSTGRES, statement, statement_length, normalised, NULL);
  /* EXECUTE runs a statement of PREPARE: the kind is that of the inner statement. */
  size_t inner = hm_statement_inner(normalised, written);
  uint64 id = hm_statement_id(normalised + inner, written - inner);
  if (id != 0) split_note_section(&own.section, SPLIT_NOTE_STATEMENT, &id, sizeof id);
  /* Not of EXPLAIN, PREPARE etc.: the kind is that of the inner query. */
  enum hm_verb verb = hm_statement_verb(HM_DIALECT_POSTGRES, statement, statement_length);
  if (length < NOTE_LENGTH - 2 && verb != HM_VERB_OTHER && verb != HM_VERB_CREATE)
    length +=
        snprintf(note + length, sizeof note - (size_t)length, ": %.*s", (int)written, normalised);
  split_note_section(&own.section, SPLIT_NOTE_TEXT, note,
                     length < NOTE_LENGTH ? (size_t)length : NOTE_LENGTH);
}

/* Hooks ------------------------------------------------------------------------------------- */

/* In the simple protocol planning and execution follow immediately. In the extended protocol a
 * parser hook resolves parameter types: it is unknown when the statement will be executed. */
static void analyze(ParseState *state, Query *query, JumbleState *jumble) {
  if (previous_analyze) previous_analyze(state, query, jumble);
  if (!is_outermost() || query->commandType == CMD_UTILITY || state->p_paramref_hook != NULL)
    return;
  begin((uint64)query->queryId, state->p_sourcetext, query->stmt_location, query->stmt_len);
}

static PlannedStmt *plan(Query *query, const char *text, int cursor_options,
                         ParamListInfo parameters) {
  PlannedStmt *result;
  const volatile bool outermost = is_outermost() && query->commandType != CMD_UTILITY;

  if (outermost &&
      (!own.open || own.query != NULL || own.query_id != (uint64)query->queryId || has_waited()))
    begin((uint64)query->queryId, text, query->stmt_location, query->stmt_len);
  depth++;
  PG_TRY();
  {
    result = previous_planner ? previous_planner(query, text, cursor_options, parameters)
                              : standard_planner(query, text, cursor_options, parameters);
  }
  PG_FINALLY();
  { depth--; }
  PG_END_TRY();
  if (outermost && own.open) own.touched = GetCurrentTimestamp();
  return result;
}

static void begin_query(QueryDesc *query) {
  begin((uint64)query->plannedstmt->queryId, query->sourceText, query->plannedstmt->stmt_location,
        query->plannedstmt->stmt_len);
}

static void start(QueryDesc *query, int flags) {
  const volatile bool outermost = is_outermost();

  if (outermost) {
    if (!own.open || own.query != NULL || own.query_id != (uint64)query->plannedstmt->queryId ||
        has_waited())
      begin_query(query);
    own.query = query;
  }
  if (previous_start)
    previous_start(query, flags);
  else
    standard_ExecutorStart(query, flags);
  if (!outermost || !own.open || own.query != query) return;
  if (flags & EXEC_FLAG_EXPLAIN_ONLY) {
    forget();
    return;
  }
  note_kind(query);
  own.touched = GetCurrentTimestamp();
}

/* After a SELECT has run, only its plan remains to be closed, at a time chosen by the client. */
static bool is_over_when_run(const QueryDesc *query) {
  return query->operation == CMD_SELECT && !query->plannedstmt->hasModifyingCTE;
}

/* The leader's kind: by its query id, else by its text, which is the whole packet here; for a
 * packet with several statements this is another kind, without a slice. */
static bool helps_leader(const QueryDesc *query) {
  if (!split_ready || !split_engine || depth != 0 || !IsParallelWorker()) return false;
  uint64 key = (uint64)query->plannedstmt->queryId;
  if (key == 0 && query->sourceText != NULL)
    key = id_of_text(query->sourceText, strlen(query->sourceText));
  return split_help(&key, sizeof key);
}

static void run(RUN_PARAMETERS) {
  const volatile bool outermost = is_outermost();
  const volatile bool helps = helps_leader(query);

  if (outermost && (!own.open || own.query != query || has_waited())) {
    begin_query(query);
    own.query = query;
  }
  if (outermost) {
    admission_ask(own.code, utilities == 0 && count == 0 && !query->already_executed);
    admission_transaction_began();
  }
  depth++;
  PG_TRY();
  {
    if (previous_run)
      previous_run(RUN_ARGUMENTS);
    else
      standard_ExecutorRun(RUN_ARGUMENTS);
  }
  PG_FINALLY();
  {
    depth--;
    if (helps) split_help_ends();
  }
  PG_END_TRY();
  if (outermost && own.open && own.query == query) {
    if (is_over_when_run(query))
      end();
    else
      own.touched = 0; /* finishing follows in the same message */
  }
}

static void finish(QueryDesc *query) {
  depth++;
  PG_TRY();
  {
    if (previous_finish)
      previous_finish(query);
    else
      standard_ExecutorFinish(query);
  }
  PG_FINALLY();
  { depth--; }
  PG_END_TRY();
  if (depth == 0 && own.open && own.query == query) end();
}

/* A plan that was started but never run: a cursor without a FETCH. */
static void take_down(QueryDesc *query) {
  if (depth == 0 && own.open && own.query == query) forget();
  if (previous_end)
    previous_end(query);
  else
    standard_ExecutorEnd(query);
}

/* A plan that a utility statement made or started without running it (DECLARE CURSOR, EXPLAIN)
 * is not a section. */
static void utility(PlannedStmt *statement, const char *text, bool read_only_tree,
                    ProcessUtilityContext context, ParamListInfo parameters,
                    QueryEnvironment *environment, DestReceiver *receiver,
                    QueryCompletion *completion) {
  if (!IsA(statement->utilityStmt, TransactionStmt)) admission_transaction_began();
  utilities++;
  PG_TRY();
  {
    if (previous_utility)
      previous_utility(statement, text, read_only_tree, context, parameters, environment, receiver,
                       completion);
    else
      standard_ProcessUtility(statement, text, read_only_tree, context, parameters, environment,
                              receiver, completion);
  }
  PG_FINALLY();
  { utilities--; }
  PG_END_TRY();
  if (depth == 0) forget();
}

static void after_error(void) {
  if (!own.open) return;
  if (own.query != NULL)
    end();
  else
    forget();
}

static void transaction_ended(XactEvent event, void *argument) {
  if (event != XACT_EVENT_ABORT) return;
  after_error();
  admission_leave();
}

/* With savepoints an error ends only a subtransaction. An error in a function was caught there,
 * as depth shows. */
static void subtransaction_ended(SubXactEvent event, SubTransactionId mine, SubTransactionId parent,
                                 void *argument) {
  if (event == SUBXACT_EVENT_ABORT_SUB && depth == 0) after_error();
}

void sections_install(void) {
  previous_analyze = post_parse_analyze_hook;
  post_parse_analyze_hook = analyze;
  previous_planner = planner_hook;
  planner_hook = plan;
  previous_start = ExecutorStart_hook;
  ExecutorStart_hook = start;
  previous_run = ExecutorRun_hook;
  ExecutorRun_hook = run;
  previous_finish = ExecutorFinish_hook;
  ExecutorFinish_hook = finish;
  previous_end = ExecutorEnd_hook;
  ExecutorEnd_hook = take_down;
  previous_utility = ProcessUtility_hook;
  ProcessUtility_hook = utility;
  RegisterXactCallback(transaction_ended, NULL);
  RegisterSubXactCallback(subtransaction_ended, NULL);
}
