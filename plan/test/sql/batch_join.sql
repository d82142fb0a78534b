-- BatchHashJoin: core and ccopt run each join, and the results are compared as multisets.
set client_min_messages = warning;
set max_parallel_workers_per_gather = 0;
set jit = off;

create schema batch_join;
set search_path = batch_join;

-- `rows` of the result, rows that only core returns, rows that only ccopt returns.
create function compare(query text, required text default 'BatchHashJoin',
                        out rows bigint, out missing bigint, out extra bigint) language plpgsql as $$
begin
  perform set_config('ccopt.enabled', 'off', true);
  execute 'create temp table stock as ' || query;
  perform set_config('ccopt.enabled', 'on', true);
  perform set_config('ccopt.force', 'on', true);
  perform set_config('ccopt.require', required, true);
  execute 'create temp table ours as ' || query;
  perform set_config('ccopt.require', '', true);
  perform set_config('ccopt.enabled', 'off', true);
  select count(*) into rows from stock;
  select count(*) into missing from (select * from stock except all select * from ours) rest;
  select count(*) into extra from (select * from ours except all select * from stock) rest;
  drop table stock, ours;
  perform set_config('ccopt.enabled', 'on', true);
  perform set_config('ccopt.force', 'off', true);
end $$;

-- The join nodes of a plan.
create function joins(query text) returns setof text language plpgsql as $$
declare line text;
begin
  perform set_config('ccopt.force', 'on', true);
  for line in execute 'explain (costs off) ' || query loop
    if line ~ 'Join|Nested Loop|Hash Cond|Join Filter|Filter:' then return next line; end if;
  end loop;
  perform set_config('ccopt.force', 'off', true);
end $$;

create table fact (id int, k int, k8 bigint, amount numeric(12,2), t text, c char(10), d date, small smallint);
insert into fact
select i, nullif(i % 700, 3), nullif(i % 500, 7), (i % 333)::numeric / 7, 'key' || i % 400,
       case when i % 50 = 0 then null else 'c' || i % 90 end, date '2020-01-01' + i % 100, i % 40
from generate_series(1, 6000) i;
create table dim (k bigint, k8 int, name text, amount numeric(12,2), t varchar(20), c char(12), d date, small smallint);
insert into dim
select nullif(i, 11), i % 300, 'name ' || i, (i % 333)::numeric / 7, 'key' || i,
       case when i % 13 = 0 then null else 'c' || i || '  ' end, date '2020-01-01' + i % 200, i
from generate_series(1, 600) i;
-- Duplicates, NULLs, values that do not fit a number, and rows without a partner.
insert into dim select i % 20, i, null, 'NaN', 'key' || i % 10, 'c1', null, null from generate_series(1, 100) i;
insert into fact select -i, -i, null, case when i < 4 then 'NaN'::numeric end, '', '', null, -1 from generate_series(1, 20) i;
insert into dim select null, null, null, null, null, null, null, null from generate_series(1, 5);
create table nothing (like dim);
create table other (k int, label text, limit_id int);
insert into other select i % 150, 'label ' || i, i * 40 from generate_series(1, 200) i;
analyze fact, dim, nothing, other;

-- Each kind of join; the smaller side is hashed.
select * from joins('select f.id, d.name from fact f join dim d on f.k = d.k');
select * from joins('select f.id, d.name from fact f left join dim d on f.k = d.k');
select * from joins('select f.id, d.name from dim d left join fact f on f.k = d.k');
select * from joins('select f.id, d.name from dim d full join fact f on f.k = d.k');
select * from joins('select f.id from fact f where exists (select from dim d where f.k = d.k)');
select * from joins('select f.id from fact f where not exists (select from dim d where f.k = d.k)');
select * from joins('select d.name from dim d where exists (select from fact f where f.k = d.k)');
select * from joins('select d.name from dim d where not exists (select from fact f where f.k = d.k)');

select * from compare('select f.id, d.name, f.k, d.k as dk from fact f join dim d on f.k = d.k');
select * from compare('select f.id, d.name, f.k, d.k as dk from fact f left join dim d on f.k = d.k');
select * from compare('select f.id, d.name, f.k, d.k as dk from dim d left join fact f on f.k = d.k');
select * from compare('select f.id, d.name, f.k, d.k as dk from dim d full join fact f on f.k = d.k');
select * from compare('select f.* from fact f where exists (select from dim d where f.k = d.k)');
select * from compare('select f.* from fact f where f.k in (select d.k from dim d)');
select * from compare('select f.* from fact f where not exists (select from dim d where f.k = d.k)');
select * from compare('select d.* from dim d where exists (select from fact f where f.k = d.k)');
select * from compare('select d.* from dim d where not exists (select from fact f where f.k = d.k)');
select * from compare('select count(*) from fact f join dim d on f.k = d.k');

-- Keys: smallint with int and bigint, several columns, text, blank-padded text, decimals (with NaN), dates.
select * from compare('select f.id, d.name from fact f join dim d on f.small = d.small');
select * from compare('select f.id, d.name from fact f join dim d on f.small = d.k');
select * from compare('select f.id, d.name from fact f join dim d on f.k = d.k and f.k8 = d.k8');
select * from compare('select f.id, d.name from fact f join dim d on f.k = d.k and f.t = d.t and f.small = d.k8');
select * from compare('select f.id, d.name, f.t, d.t as dt from fact f join dim d on f.t = d.t');
select * from compare('select f.id, d.name, f.c, d.c as dc from fact f join dim d on f.c = d.c');
select * from compare('select f.id, d.name, f.c, d.c as dc from fact f full join dim d on f.c = d.c and f.k = d.k');
select * from compare('select f.id, d.name, f.amount, d.amount as da from fact f join dim d on f.amount = d.amount');
select * from compare('select f.id, d.name, f.amount, d.amount as da from fact f full join dim d on f.amount = d.amount');
select * from compare('select f.id from fact f where exists (select from dim d where f.amount = d.amount)');
select * from compare('select f.id from fact f where not exists (select from dim d where f.amount = d.amount)');
select * from compare('select d.* from dim d where not exists (select from fact f where f.amount = d.amount and f.d = d.d)');
select * from compare('select f.id, d.name from fact f left join dim d on f.d = d.d and f.small = d.small');

-- One frequent key on both sides: the join must not visit all pairs.
create table same (k int, n int);
insert into same select 1, i from generate_series(1, 20000) i;
insert into same select i, i from generate_series(2, 50) i;
create table same_again as select k, n from same where n <> 17 union all select 1, -n from same;
analyze same, same_again;
select * from compare('select s.* from same s where exists (select from same_again a where a.k = s.k)');
select * from compare('select s.* from same s where not exists (select from same_again a where a.k = s.k)');
select * from compare('select a.* from same_again a where exists (select from same s where a.k = s.k)');
select * from compare('select a.* from same_again a where not exists (select from same s where a.k = s.k)');

-- Further conditions: on batches, on rows, with a subquery; WHERE above an outer join.
select * from joins('select f.id, d.name from fact f left join dim d on f.k = d.k and f.id < d.k8 and length(d.name) > f.small % 9 order by 1');
select * from compare('select f.id, d.name from fact f join dim d on f.k = d.k and f.id > d.k8');
select * from compare('select f.id, d.name from fact f left join dim d on f.k = d.k and f.id < d.k8');
select * from compare('select f.id, d.name from fact f left join dim d on f.k = d.k and f.id < d.k8 and length(d.name) > f.small % 9 order by 1');
select * from compare('select f.id, d.name from dim d left join fact f on f.k = d.k and f.id % 7 = d.k8 % 7 order by 1');
select * from compare('select f.id, d.name from dim d full join fact f on f.k = d.k and f.id % 7 = d.k8 % 7 order by 1');
select * from compare('select f.id from fact f where exists (select from dim d where f.k = d.k and d.k8 <> f.small)');
select * from compare('select f.id from fact f where not exists (select from dim d where f.k = d.k and d.k8 % 3 <> f.id % 3) order by 1');
select * from compare('select d.* from dim d where exists (select from fact f where f.k = d.k and d.k8 % 3 <> f.id % 3) order by 1');
select * from compare('select d.* from dim d where not exists (select from fact f where f.k = d.k and d.k8 < f.id)');
select * from compare('select f.id, d.name from fact f left join dim d on f.k = d.k where d.name is null or d.k8 > 40');
select * from compare('select f.id, d.name from dim d left join fact f on f.k = d.k where coalesce(f.id, 0) % 2 = 0 order by 1');
select * from compare('select f.id, d.name from fact f left join dim d on f.k = d.k where d.k is null');
select * from compare('select f.id, d.name from fact f join dim d on f.k = d.k and d.k8 > (select avg(o.limit_id) / 40 from other o where o.k < f.small) order by 1');
select * from compare('select f.id, d.name from fact f join dim d on f.k = d.k and f.amount < d.amount');

-- Output columns: expressions, whole rows, the same column twice, none.
select * from compare('select f.id + d.k8 as s, upper(d.name) as n, d.k, d.k as again from fact f join dim d on f.k = d.k');
select * from compare('select f.id, (d.*)::text as whole from fact f left join dim d on f.k = d.k');
select * from compare('select 1 as one from fact f join dim d on f.k = d.k');

-- Several joins.
select * from compare('select f.id, d.name, o.label from fact f join dim d on f.k = d.k join other o on o.k = d.k8');
select * from compare('select f.id, d.name, o.label from fact f join dim d on f.k = d.k join other o on o.k = f.k8');
select * from compare('select f.id, d.name, o.label from fact f left join dim d on f.k = d.k left join other o on o.k = d.k8');
select * from compare('select f.id, d.name, o.label from fact f left join (dim d join other o on o.k = d.k8) on f.k = d.k');
select * from compare('select f.id, d.name, o.label from other o full join dim d on o.k = d.k8 left join fact f on f.k = d.k');
select * from compare('select f.id, d.name from fact f join dim d on f.k = d.k where exists (select from other o where o.k = d.k8)
                       and not exists (select from other o where o.k = f.k8 and o.limit_id > f.id)');
select * from compare('select a.id, b.id as bid from fact a join fact b on a.k = b.id join dim d on d.k = a.small join dim e on e.k8 = b.small');

-- Empty sides.
select * from compare('select f.id, n.name from fact f join nothing n on f.k = n.k');
select * from compare('select f.id, n.name from fact f left join nothing n on f.k = n.k');
select * from compare('select f.id, n.name from nothing n left join fact f on f.k = n.k');
select * from compare('select f.id, n.name from fact f full join nothing n on f.k = n.k');
select * from compare('select f.id from fact f where exists (select from nothing n where f.k = n.k)');
select * from compare('select f.id from fact f where not exists (select from nothing n where f.k = n.k)');
select * from compare('select f.id, d.name from fact f join dim d on f.k = d.k where f.id > 1000000');
select * from compare('select f.id, d.name from fact f left join dim d on f.k = d.k and d.k8 < 0');

-- Inputs that are not tables.
select * from compare('select f.id, s.total from fact f join (select k, sum(k8) as total from dim group by k) s on s.k = f.k order by 1');
select * from compare('select v.a, d.name from (values (1), (2), (null), (3), (3)) v(a) join dim d on d.k = v.a');
select * from compare('select g, d.name from generate_series(1, 50) g left join dim d on d.k8 = g');
select * from compare('select s.x, d.name from fact f left join (select k, coalesce(name, ''none'') as x, k8 from dim) s on s.k = f.k
                       join dim d on d.k8 = s.k8 order by 1');

-- Rescans, with and without a change of the hashed side.
select * from compare('select o.k, x.n from other o, lateral (select count(*) as n from fact f join dim d on f.k = d.k where f.small < o.k % 5) x');
select * from compare('select o.k, x.n from other o, lateral (select count(*) as n from fact f join dim d on f.k = d.k and d.k8 < o.k % 5) x');
select * from compare('select o.k, (select count(*) from dim d left join fact f on f.k = d.k and f.id > o.limit_id and d.k8 > 3) as n from other o where o.k < 9');
select * from compare('select o.k, (select count(*) from dim d where d.k8 > o.k and exists (select from fact f where f.k = d.k)) as n from other o where o.k < 9');

-- Stopping early.
set ccopt.force = on;
set ccopt.require = 'BatchHashJoin';
select count(*) from (select f.id from fact f join dim d on f.k = d.k limit 10) s;
select exists (select from fact f join dim d on f.k = d.k);
select exists (select from fact f join dim d on f.k = d.k where f.id < 0);
select f.id, d.name from fact f join dim d on f.k = d.k where f.id between 100 and 120 order by f.id, d.name limit 3;
reset ccopt.require;

-- A prepared statement with a generic plan.
set plan_cache_mode = force_generic_plan;
prepare joined(int, int) as select count(*), sum(d.k8) from fact f join dim d on f.k = d.k and d.k8 < f.small + $2 where f.id < $1;
execute joined(1000, 5);
execute joined(3000, null);
set ccopt.enabled = off;
deallocate joined;
prepare joined(int, int) as select count(*), sum(d.k8) from fact f join dim d on f.k = d.k and d.k8 < f.small + $2 where f.id < $1;
execute joined(1000, 5);
execute joined(3000, null);
reset ccopt.enabled;
reset plan_cache_mode;

-- EXPLAIN: the lines of the join itself.
create function explained(query text, options text = 'costs off') returns setof text language plpgsql as $$
declare line text;
begin
  perform set_config('ccopt.force', 'on', true);
  for line in select public.plan_lines(query, options) loop
    if line ~ 'Join|Inner|Hash Cond|Filter|Partitions' then return next line; end if;
  end loop;
  perform set_config('ccopt.force', 'off', true);
end $$;
select * from explained('select f.id, d.name, f.id + d.k8 from fact f left join dim d on f.k = d.k and f.id < d.k8 and length(d.name) > f.small
                         where d.c is null order by 1', 'verbose, costs off');
select * from explained('select f.id, d.name from fact f join dim d on f.k = d.k8 and f.id < d.k8 where d.k = 5',
                        'analyze, costs off, timing off, summary off');
-- What is refused, and why.
select * from explained('select f.id from fact f join dim d on f.k = d.k and f.id / f.small > d.k8', 'verbose, costs off');
select * from explained('select f.id from fact f, dim d where f.k < d.k', 'verbose, costs off');
select * from explained('select f.id from fact f join dim d on f.k = d.k and random() < f.id', 'verbose, costs off');
select * from explained('select f.id from fact f join dim d on f.id::numeric = d.amount', 'verbose, costs off');
select * from explained('select f.id from fact f join dim d on f.k = d.k for update of f', 'verbose, costs off');

drop schema batch_join cascade;
