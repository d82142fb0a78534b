-- What INSERT reads, and what cursors read that were declared without NO SCROLL: which plans use ccopt, and that
-- the rows equal core's.
set client_min_messages = warning;
create schema read_side;
set search_path = read_side;
create table facts (id int primary key, k int, v numeric(10,2), d date, t text);
insert into facts select i, i % 500, i / 4.0, date '2000-01-01' + i % 1000, 'text ' || i % 977 from generate_series(1, 40000) i;
create table names (k int unique, name text, weight numeric(10,2));
insert into names select i, 'name ' || i % 50, i / 8.0 from generate_series(0, 449) i;
create table target (no serial, k int, n bigint, s numeric, at int default 7);
create unique index on target (no);
vacuum analyze facts, names, target;
set max_parallel_workers_per_gather = 0;

-- ccopt's nodes in a plan, or the first reason why there is none.
create function reads(statement text) returns text language plpgsql as $$
declare
  line text; nodes text[] := '{}'; reason text;
begin
  for line in execute 'explain (costs off) ' || statement loop
    if line ~ 'Custom Scan' then nodes := nodes || substring(line from '\((\w+)\)'); end if;
    if line ~ '^ *ccopt:' and reason is null then reason := line; end if;
  end loop;
  return coalesce(nullif(array_to_string(nodes, ', '), ''), reason, 'no reason');
end $$;
select reads('insert into target (k, n) select k, count(*) from facts group by k');
select reads('insert into target (k, n) select f.k, n.k from facts f join names n on n.k = f.k');
select reads('insert into target (k, n) select k, id from facts where v > 9000 on conflict do nothing');
select reads('insert into target (k, n) select k, (select count(*) from facts where v > 10) from names');
select reads('create table made as select k, count(*) from facts group by k');
select reads('insert into names select k from facts on conflict (k) do update set weight = 1');
select reads('update target set n = s.n from (select k, count(*) as n from facts group by k) s where s.k = target.k');
select reads('delete from target using facts where facts.k = target.k');
select reads('merge into target using (select k, count(*) as n from facts group by k) s on s.k = target.k when matched then delete');
select reads('with gone as (delete from target returning k) insert into target (k, n) select k, count(*) from facts group by k');
select reads('insert into target (k) select k from facts for update');

-- Both ways insert the same rows, each into a separate table.
create function same(made text, statement text) returns text language plpgsql as $$
declare
  ours text; stock text; n bigint;
  rows text := format('select md5(coalesce(string_agg(r, e''\n'' order by r), '''')), count(*) from (select s::text collate "C" as r from %s s) q', made);
begin
  for way in 1..2 loop
    perform set_config('ccopt.enabled', case way when 1 then 'on' else 'off' end, false);
    begin
      execute statement;
      if way = 1 then execute rows into ours, n; else execute rows into stock, n; end if;
      raise exception using errcode = 'UNDO1';
    exception when sqlstate 'UNDO1' then null;
    end;
    perform setval('target_no_seq', 1, false);
  end loop;
  perform set_config('ccopt.enabled', 'on', false);
  return format('%s, %s rows', case when ours = stock then 'same' else 'DIFFERENT' end, n);
end $$;
create function of_all() returns setof text language plpgsql as $$
begin
  return next 'groups: ' || same('target', 'insert into target (k, n, s) select k, count(*), sum(v) from facts group by k order by k');
  return next 'scan: ' || same('target', 'insert into target (k, n) select k, id from facts where v > 9000');
  return next 'join: ' || same('target', 'insert into target (k, n) select f.id, n.k from facts f join names n on n.k = f.k order by f.id');
  return next 'itself: ' || same('facts', 'insert into facts select id + 100000, k, v, d, t from facts where k < 400');
  return next 'itself, grouped: ' || same('facts', 'insert into facts select 200000 + k, k, sum(v) / 1000 from facts group by k');
  return next 'conflict: ' || same('facts', 'insert into facts select id + 39000, k from facts where v > 0 on conflict do nothing');
  return next 'conflict, update: ' || same('names', 'insert into names select k, min(t), count(*) from facts group by k on conflict (k) do update set name = excluded.name');
  return next 'returning: ' || same('names', 'with new as (insert into names select k + 1000, min(t) from facts group by k returning k) select count(*) from new, facts');
  return next 'sub-select: ' || same('target', 'insert into target (k, s) select k, (select sum(v) from facts f where f.k = n.k) from names n where k < 9');
  return next 'union: ' || same('target', 'insert into target (k, n) select k, count(*) from facts group by k union all select k, 0 from names order by 1, 2');
  return next 'error: ' || same('facts', 'do $d$ begin insert into facts select id + 39999, k from facts order by id; exception when unique_violation then null; end $d$');
  return next 'with: ' || same('target', 'with s as materialized (select k, sum(v) as v from facts group by k) insert into target (k, s) select k, v from s where v > 20000 order by k');
end $$;
select of_all();
set ccopt.force = on;
select of_all();

-- A trigger that changes what is being read: the statement sees rows as they were when it began.
create function changes() returns trigger language plpgsql as $$
begin
  if new.no % 5000 = 3 then
    delete from facts where id % 500 = new.k + 2;
    update facts set v = -1 where k = new.k + 1;
    insert into facts select 500000 + new.no, new.k, 1;
  end if;
  return new;
end $$;
create trigger changes before insert on target for each row execute function changes();
select same('target', 'insert into target (k, n, s) select k, id, v from facts where v > 0 order by id');
select same('target', 'insert into target (k, n, s) select k, count(*), sum(v) from facts group by k order by k');
select same('facts', 'insert into target (k, n, s) select f.k, f.id, f.v from facts f join names n on n.k = f.k order by f.id');
drop trigger changes on target;

-- Cursors go backwards exactly where core's do.
reset ccopt.force;
create function declared(query text) returns text language plpgsql as $$
begin
  return reads('declare c cursor for ' || query);
end $$;
select declared('select k, sum(v) from facts group by k');
select declared('select k, sum(v) from facts group by k order by k');
select declared('select f.id, n.name from facts f join names n on n.k = f.k');
select declared('select f.id, n.name from facts f join names n on n.k = f.k order by f.id');
select declared('select id from facts where v > 10');
select declared('select t from facts where v > 10 order by t');
select declared('select k from names union all select k from facts');
select declared('select distinct k from facts');
set ccopt.force = on;
begin;
declare c cursor for select f.id, n.name from facts f join names n on n.k = f.k where f.id < 4 order by f.id;
fetch 2 from c;
fetch backward 1 from c;
fetch all from c;
fetch backward all from c;
commit;
begin;
declare c cursor for select count(*), sum(v) from facts;
fetch 1 from c;
savepoint s;
fetch backward 1 from c;
rollback to s;
commit;
begin;
declare c cursor for select id from facts where id < 5;
fetch 3 from c;
fetch backward 2 from c;
update facts set v = 0 where current of c;
select id, v from facts where id < 5 order by id;
rollback;
begin;
declare c cursor for select id, t from facts where v < 2 order by id;
fetch 2 from c;
fetch backward 1 from c;
rollback;
begin;
declare c scroll cursor for select k, sum(v) from facts where k < 3 group by k order by k;
fetch 2 from c;
fetch backward 1 from c;
fetch last from c;
rollback;
drop schema read_side cascade;
