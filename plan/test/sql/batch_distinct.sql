-- DISTINCT by hashing in batches: aggregates of the values that differ, and SELECT DISTINCT.
set client_min_messages = warning;
create schema batch_distinct;
set search_path = batch_distinct;
create collation fold_case (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
create table facts (id int primary key, g int, k int, wide bigint, v numeric(10,2), free numeric, d date, t text, b bpchar(4), folded text collate fold_case, r float8);
insert into facts select i, i % 7, i % 4000, i % 300 * 10000000000, i % 900 / 4.0, i % 50 / 8.0, date '2000-01-01' + i % 1000, 'text ' || i % 977, chr(97 + i % 9), case when i % 2 = 0 then 'a' else 'A' end || i % 10, i % 33 / 3.0 from generate_series(1, 40000) i;
update facts set v = 'NaN' where id % 20000 = 7;
update facts set k = null, v = null, t = null, g = null where id % 1000 = 8;
delete from facts where id % 97 = 5;
create table names (k int, name text);
insert into names select i, 'name ' || i % 50 from generate_series(0, 3999) i;
create index on facts (d);
vacuum analyze facts, names;
set max_parallel_workers_per_gather = 0;
set work_mem = '16MB';

create function plan_of(query text) returns setof text language plpgsql as $$
declare
  line text;
begin
  for line in execute 'explain (costs off) ' || query loop
    if line !~ 'Filter|Hash Cond' then return next line; end if;
  end loop;
end $$;
create function why_not(query text) returns setof text language plpgsql as $$
declare
  line text;
begin
  for line in execute 'explain (costs off) ' || query loop
    if line ~ 'ccopt:' then return next line; end if;
  end loop;
end $$;
-- Whether stock gives the same rows, and how many these are; and how many BatchAggs the plan has.
create function same(query text) returns text language plpgsql as $$
declare
  ours text; stock text; n bigint; nodes int := 0; line text;
  rows text := format('select md5(coalesce(string_agg(r, e''\n'' order by r), '''')), count(*) from (select s::text collate "C" as r from (%s) s) q', query);
begin
  for line in execute 'explain (costs off) ' || query loop
    nodes := nodes + (line ~ 'BatchAgg' and line !~ 'ccopt:')::int;
  end loop;
  execute rows into ours, n;
  perform set_config('ccopt.enabled', 'off', false);
  execute rows into stock;
  perform set_config('ccopt.enabled', 'on', false);
  return format('%s, %s rows, %s BatchAgg', case when ours = stock then 'same' else 'DIFFERENT' end, n, nodes);
end $$;

select plan_of('select count(distinct k) from facts where v > 3');
select plan_of('select g, count(distinct k), sum(distinct k) from facts group by g having count(distinct k) > 10');
select plan_of('select distinct g, k from facts');
select plan_of('select distinct d from facts');
-- Left to PostgreSQL, and why.
select why_not('select count(distinct k), count(*) from facts');
select why_not('select count(distinct k), count(distinct v) from facts');
select why_not('select count(distinct k) filter (where v > 3) from facts');
select why_not('select count(distinct k + 1) from facts');
select why_not('select count(distinct (k, g)) from facts');

create function of_all() returns setof text language plpgsql as $$
declare
  kind text;
begin
  foreach kind in array array['g', 'k', 'wide', 'v', 'free', 'd', 't', 'b', 'lower(folded collate "C")', 'r'] loop
    return next kind || ': ' || same(format('select distinct %s from facts', kind));
  end loop;
  foreach kind in array array['g', 'k', 'wide', 'v', 'free', 'd', 't', 'b', 'folded', 'r'] loop
    return next 'count of ' || kind || ': ' || same(format('select count(distinct %s) from facts', kind));
    return next 'in groups: ' || same(format('select g, count(distinct %s) from facts group by g', kind));
  end loop;
  return next 'sums: ' || same('select g, sum(distinct k), avg(distinct k), count(distinct k), min(distinct k), max(distinct k) from facts group by g');
  return next 'wide sums: ' || same('select k, sum(distinct wide), avg(distinct wide) from facts group by k');
  return next 'numeric: ' || same('select g, sum(distinct v), avg(distinct v), max(distinct v) from facts group by g');
  return next 'its own group: ' || same('select k, count(distinct k) from facts group by k');
  return next 'carried: ' || same('select id, k, count(distinct v) from facts group by id');
  return next 'nothing: ' || same('select count(distinct k), sum(distinct k) from facts where id < 0');
  return next 'no groups: ' || same('select g, count(distinct k) from facts where id < 0 group by g');
  return next 'nulls only: ' || same('select count(distinct k), avg(distinct k) from facts where k is null');
  return next 'having: ' || same('select g, count(distinct k) from facts group by g having count(distinct k) > 100 and g < 5');
  return next 'expressions: ' || same('select g + 1, count(distinct k) * 2, sum(distinct k) / 3 from facts group by g + 1 order by 2 desc, 1');
  return next 'join: ' || same('select n.name, count(distinct f.t) from facts f join names n on n.k = f.k group by n.name');
  return next 'subquery: ' || same('select g, (select count(distinct k) from facts i where i.g = o.g and i.v > 3) from (select distinct g from facts) o');
  return next 'window: ' || same('select distinct g, count(*) over (partition by g) from facts');
  return next 'groups, once: ' || same('select distinct count(*) from facts group by k');
  return next 'order: ' || same('select distinct g, b from facts order by b desc, g limit 12');
  return next 'constant: ' || same('select distinct g, 1 from facts');
  return next 'twice: ' || same('select distinct g, g, b from facts');
  return next 'union: ' || same('select distinct k from facts union all select distinct g from facts');
end $$;
select of_all();
set ccopt.force = on;
select of_all();
-- Beyond the memory of a hash table.
set work_mem = '64kB';
select same('select count(distinct id), sum(distinct id) from facts');
select same('select t, count(distinct id) from facts group by t');
select same('select distinct k, d, t from facts');
set work_mem = '16MB';
-- Started again, with other rows.
select same('select s.n, x.g from (values (1), (2), (3)) x (g), lateral (select count(distinct k) as n from facts where g = x.g) s');
set plan_cache_mode = force_generic_plan;
prepare counted (int) as select count(distinct k), sum(distinct k) from facts where g < $1;
execute counted (3);
execute counted (0);
execute counted (3);
set ccopt.enabled = off;
execute counted (3);
drop schema batch_distinct cascade;
