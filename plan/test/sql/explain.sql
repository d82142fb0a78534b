-- EXPLAIN shows why a node was not used: below the plan, where core's node stands in its place; with VERBOSE in any
-- case.
set max_parallel_workers_per_gather = 0;
set ccopt.buffer = off;
set ccopt.enable_batch_agg = off;
set ccopt.enable_batch_join = off;
create table explain_rows (k int primary key, v int not null, filler text not null);
insert into explain_rows select i, i % 100, repeat('x', 50) from generate_series(1, 20000) i;
create table explain_few (k int not null);
insert into explain_few values (1), (2);
vacuum analyze explain_rows, explain_few;

-- The node is used: no line.
explain (costs off) select count(*) from explain_rows where v = 3;
-- The node is refused: one line.
explain (costs off) select * from explain_rows where v = 3 for share;
-- One line per table, by its alias.
explain (costs off) select count(*) from (select * from explain_rows a where v = 3 for share) s,
                                         (select * from explain_rows b where v = 3 for share) t;
-- An index is better: shown with VERBOSE only.
explain (costs off) select * from explain_rows where k = 3;
explain (costs off, verbose) select * from explain_rows where k = 3;
-- The reason for a table of few pages is also shown with VERBOSE only.
explain (costs off) select * from explain_few;
explain (costs off, verbose) select * from explain_few;
-- Switched off: no line.
set ccopt.enabled = off;
explain (costs off, verbose) select * from explain_rows where v = 3 for share;
set ccopt.enabled = on;

-- Other formats have a group beside the plan's.
create function pg_temp.explained(command text) returns text language plpgsql as $$
declare
  output text;
begin
  execute command into output;
  return output;
end $$;
select jsonb_pretty(pg_temp.explained('explain (costs off, format json) select k from explain_rows where v = 3 for share')::jsonb -> 1);
select substring(pg_temp.explained('explain (costs off, format xml) select k from explain_rows where v = 3 for share') from '</Query>.*');
select substring(pg_temp.explained('explain (costs off, format yaml) select k from explain_rows where v = 3 for share') from '- ccopt.*');
select jsonb_array_length(pg_temp.explained('explain (costs off, format json) select k from explain_rows where v = 3')::jsonb) as plan_alone;

-- The server's own lines are still there.
create function pg_temp.lines(command text, pattern text) returns setof text language plpgsql as $$
declare
  line text;
begin
  for line in execute command loop
    if line ~ pattern then return next regexp_replace(line, '[0-9]+(\.[0-9]+)?', 'N', 'g'); end if;
  end loop;
end $$;
select pg_temp.lines('explain (analyze, buffers, costs off, timing off) select v from explain_rows where v = 3 for share', 'Planning|ccopt|LockRows|Scan');
select pg_temp.lines('explain (analyze, costs off, timing off) select count(*) from explain_rows where v = 3', 'Time|Aggregate|Batch');
select pg_temp.lines('explain (costs off, summary) select * from explain_few', 'Planning|ccopt');
explain (costs off) create table explain_made as select v from explain_rows where v = 3 for share;
begin;
explain (costs off) declare c scroll cursor for select v from explain_rows where v = 3;
rollback;
-- Functions planned while the statement is planned or run add nothing of their own.
create function explain_inner() returns bigint language plpgsql immutable as
  $$ begin return (select count(*) from explain_few); end $$;
explain (costs off, verbose) select v from explain_rows where v = explain_inner() for share;
-- A prepared statement was planned elsewhere.
prepare p as select * from explain_rows where v = 3 for share;
explain (costs off) execute p;
deallocate p;
-- An error leaves nothing behind.
explain (costs off) select 1 / 0 from explain_rows where v = 3 for share;
explain (costs off) select v from explain_rows where v = 3 for share;
drop function explain_inner();
drop table explain_rows, explain_few;
