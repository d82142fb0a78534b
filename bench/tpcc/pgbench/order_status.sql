\set warehouse random(1, :warehouses)
\set district random(1, 10)
\set customer random(1, 3000)
SELECT * FROM hardmeter_tpcc_order_status(:warehouse::integer, :district::integer, :customer::integer, NULL);
