-- Included by the tests parallel*: tables, settings under which small tables get workers, plan_of(), same_as_core() and fails().
create table facts (id int primary key, k int, v numeric(10,2), d date, t text);
insert into facts select i, i % 500, i / 4.0, date '2000-01-01' + i % 1000, 'text ' || i % 977 from generate_series(1, 60000) i;
update facts set v = 'NaN' where id % 20000 = 7;
update facts set t = null, v = null where id % 1000 = 8;
delete from facts where id % 97 = 5;
create table names (k int, name text, weight numeric(10,2));
insert into names select i, 'name ' || i % 50, i / 8.0 from generate_series(0, 449) i;
insert into names values (null, 'without key', 1), (7, 'second seven', 2);
create table nothing (k int, v numeric(10,2));
vacuum analyze facts, names, nothing;

set parallel_setup_cost = 0;
set parallel_tuple_cost = 0.001;
set min_parallel_table_scan_size = 0;
set max_parallel_workers_per_gather = 2;
set enable_bitmapscan = off;
set work_mem = '16MB';
-- PostgreSQL 18 removes joins of a table with itself by its key, which these tests are made of.
do $$ begin
  if exists (select from pg_settings where name = 'enable_self_join_elimination') then
    perform set_config('enable_self_join_elimination', 'off', false);
  end if;
end $$;

-- The nodes of a plan: its workers, ccopt's nodes, and core's nodes that ccopt could replace.
create function plan_of(query text) returns setof text language plpgsql as $$
declare
  line text;
begin
  for line in execute 'explain (costs off) ' || query loop
    if line ~ '(Gather|Custom Scan|Aggregate|Hash Join|Seq Scan|Workers Planned)' then return next line; end if;
  end loop;
end $$;

-- Whether core returns the same rows, how many, and `what` if a line of ccopt's plan has `pattern`.
create function same_as_core(query text, pattern text, what text) returns text language plpgsql as $$
declare
  ours text; stock text; n bigint; found boolean := false; line text;
  rows text := format('select md5(coalesce(string_agg(r, e''\n'' order by r), '''')), count(*) from (select s::text collate "C" as r from (%s) s) q', query);
begin
  for line in execute 'explain (costs off) ' || rows loop
    found := found or line ~ pattern;
  end loop;
  execute rows into ours, n;
  perform set_config('ccopt.enabled', 'off', false);
  execute rows into stock;
  perform set_config('ccopt.enabled', 'on', false);
  return format('%s, %s rows%s', case when ours = stock then 'same' else 'DIFFERENT' end, n, case when found then ', ' || what else '' end);
end $$;

-- The code of the error that a query ends with.
create function pg_temp.fails(query text) returns text language plpgsql as $$
begin
  execute query;
  return 'no error';
exception when others or query_canceled then return sqlstate;
end $$;
