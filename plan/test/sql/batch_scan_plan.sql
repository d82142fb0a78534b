-- Where BatchScan is used, what EXPLAIN shows of it, and why it is not used elsewhere.
\set VERBOSITY terse
set client_min_messages = warning;
set max_parallel_workers_per_gather = 0;
set jit = off;
set ccopt.enable_batch_agg = off;
set ccopt.enable_batch_join = off;
set ccopt.buffer = off;
set ccopt.force = on;

-- How many batches there are depends on the server's settings (pages that may be pinned).
create function pg_temp.explain(format text, query text) returns setof text language plpgsql as $$
declare
  plan_line text;
begin
  for plan_line in select public.plan_lines(query, 'analyze, buffers off, costs off, timing off, summary off, ' || format) loop
    return next regexp_replace(plan_line, 'Batches("?): \d+', 'Batches\1: n');
  end loop;
end $$;

create table facts (id integer, n numeric(10,2), t text, wide text, free numeric);
insert into facts select i, i / 10.0, 'text ' || i % 10, repeat('x', 50), i from generate_series(1, 5000) i;
insert into facts values (5001, 'NaN', 'odd', null, 'NaN');
create table few (a integer);
insert into few select generate_series(1, 100);
create materialized view seen as select id, n from facts;
analyze;

explain (costs off) select id from facts;
explain (costs off) select id from facts where n < 5 and t = 'text 3' and free > 1;
explain (costs off, verbose) select f.id + 1 from facts f where n < 5;
explain (costs off) select * from seen where n < 5;
-- One path among others: an index scan may still win.
create index on facts (id);
explain (costs off) select n from facts where id = 17;
set enable_indexscan = off;
set enable_bitmapscan = off;

-- What happened.
select pg_temp.explain('verbose', 'select id from facts where n > 400 and t = ''text 3'' and free > 420');
select pg_temp.explain('format json', 'select id from facts where n > 400 and wide is null');
select pg_temp.explain('verbose', 'select id from facts where n < 400 limit 3');

-- The planner gets the reason why not; ccopt.require quotes it.
\set VERBOSITY default
set ccopt.require = 'BatchScan';
select ctid from facts;
select tableoid::regclass from facts limit 1;
select facts from facts limit 1;
select * from facts where random() < 2;
select id from facts for update;
select id from facts tablesample system (100);
select * from generate_series(1, 3);
update facts set id = id where id = 1;
update facts set n = s.n from (select id, n from seen where n < 5) s where s.id = facts.id and facts.id < 0;
with gone as (delete from few where a < 0 returning a) select count(*) from facts, gone;
set ccopt.enable_batch_scan = off;
select count(*) from facts;
set ccopt.enable_batch_scan = on;
set ccopt.require = '';
set ccopt.force = off;
set ccopt.require = 'BatchScan';
select count(*) from few;
set ccopt.force = on;
select count(*) from few;
set ccopt.require = '';
\set VERBOSITY terse

-- Row-level security: policies first, whatever a predicate costs.
create role scan_reader;
grant select on facts to scan_reader;
alter table facts enable row level security;
create policy small on facts to scan_reader using (id < 100);
set role scan_reader;
explain (costs off) select id from facts where n < 5;
select count(*) from facts where n < 500;
reset role;
alter table facts disable row level security;
create view barrier with (security_barrier) as select id, n, t from facts where id < 50;
explain (costs off) select id from barrier where n < 5;
select count(*) from barrier where n < 5;

-- SCROLL cursors go backwards, so they have core's scans.
begin;
declare c scroll cursor for select id from facts where id < 10;
fetch 3 from c;
fetch backward 2 from c;
close c;
declare c cursor for select id from facts where id < 10;
fetch 3 from c;
fetch backward 1 from c;
rollback;

-- The statistics views have the figures of SeqScan.
select pg_stat_force_next_flush();
select pg_stat_reset_single_table_counters('facts'::regclass);
select count(*) from facts where n < 5;
select count(*) from (select id from facts where n < 5 limit 1) l;
select pg_stat_force_next_flush();
select seq_scan, seq_tup_read >= 5001 as all_and_some from pg_stat_user_tables where relname = 'facts';

-- A serializable transaction reads under conflict detection; a statement is cancelled in between.
begin isolation level serializable;
select count(*) from facts where n < 5;
select count(*) from pg_locks where mode = 'SIReadLock' and relation = 'facts'::regclass and pid = pg_backend_pid();
commit;
set statement_timeout = '100ms';
select count(*) from facts a, facts b, facts c where a.n < b.n and b.n < c.n and a.t <> c.t;
reset statement_timeout;

-- Pages stay pinned while a cursor is positioned on them, and are released afterwards; a subtransaction may end in
-- between.
begin;
declare c no scroll cursor for select id, wide from facts where n > 5;
fetch 2 from c;
savepoint s;
fetch 2 from c;
select 1 / 0;
rollback to s;
fetch 2 from c;
commit;
vacuum facts;

-- Temporary and unlogged tables; a table changed within the same transaction.
create temp table scratch as select id, n from facts;
create unlogged table noted as select id, n from facts;
select count(*), sum(n) from scratch where n < 10;
select count(*), sum(n) from noted where n < 10;
begin;
insert into scratch select 9, 9 from generate_series(1, 100);
select count(*), sum(n) from scratch where n < 10;
savepoint s;
delete from scratch where id < 50;
select count(*), sum(n) from scratch where n < 10;
rollback to s;
select count(*), sum(n) from scratch where n < 10;
commit;
drop table facts, few, noted cascade;
drop role scan_reader;
