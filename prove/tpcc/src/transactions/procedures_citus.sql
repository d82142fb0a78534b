-- The five transactions of TPC-C as functions of the coordinator of a Citus cluster: the same calls and results as
-- procedures.sql. Installed by transactions/install.rs where WAREHOUSE is a distributed table.
--
-- Citus routes a statement whose rows are all of one warehouse to that warehouse's node; it refuses, or pulls to the
-- coordinator, what joins other rows to them, and volatile or stable functions of columns. So each statement here
-- names one warehouse, and New-Order and Delivery take their rows one by one. Plans are made for their parameters:
-- a generic one has no node. CASE has a condition in each WHEN: with a value before the first WHEN, Citus 13.2 sends
-- a RETURNING list to the node that compares this value with true.
--
-- Isolation: as in procedures.sql, since locks of rows are held on the nodes up to the commit, which is in two phases
-- where it concerns several nodes. Order-Status and Stock-Level are one statement each for one node: one snapshot.

-- Clause 2.4. The lines are sorted by supplying warehouse and item, so that two New-Orders cannot deadlock.
CREATE FUNCTION hardmeter_tpcc_new_order(
    warehouse_in integer, district_in integer, customer_in integer,
    lines_in integer[], items_in integer[], supplies_in integer[], quantities_in integer[],
    OUT order_id integer, OUT entered timestamp, OUT warehouse_tax numeric, OUT district_tax numeric,
    OUT discount numeric, OUT last_name varchar, OUT credit char(2), OUT total numeric,
    OUT lines integer[], OUT names varchar[], OUT prices numeric[], OUT stocks integer[], OUT brands boolean[],
    OUT amounts numeric[]
) LANGUAGE plpgsql VOLATILE SET plan_cache_mode = force_custom_plan AS $$
DECLARE
    line_count integer := cardinality(lines_in);
    item_at integer;
    supply_at integer;
    quantity_at integer;
    known_items integer[];
    known_prices numeric[];
    known_names varchar[];
    originals boolean[];
    known integer;
    price numeric;
    stock_left integer;
    brand boolean;
    dist char(24);
    missing boolean := false;
BEGIN
    entered := localtimestamp;
    total := 0;
    UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = warehouse_in AND d_id = district_in
        RETURNING d_next_o_id - 1, d_tax INTO STRICT order_id, district_tax;
    SELECT w_tax, c_discount, c_last, c_credit INTO STRICT warehouse_tax, discount, last_name, credit
        FROM warehouse JOIN customer ON c_w_id = w_id
        WHERE w_id = warehouse_in AND c_w_id = warehouse_in AND c_d_id = district_in AND c_id = customer_in;
    INSERT INTO orders (o_id, o_d_id, o_w_id, o_c_id, o_entry_d, o_carrier_id, o_ol_cnt, o_all_local)
        VALUES (order_id, district_in, warehouse_in, customer_in, entered, NULL, line_count,
            (warehouse_in = ALL (supplies_in))::integer);
    INSERT INTO new_order (no_o_id, no_d_id, no_w_id) VALUES (order_id, district_in, warehouse_in);
    -- All items at once: prices of one moment, even if another session changes them meanwhile (clause 3.4.1, level 2).
    SELECT array_agg(i_id), array_agg(i_price), array_agg(i_name), array_agg(i_data LIKE '%ORIGINAL%')
        INTO known_items, known_prices, known_names, originals FROM item WHERE i_id = ANY (items_in);
    FOR at IN 1..line_count LOOP
        item_at := items_in[at];
        supply_at := supplies_in[at];
        quantity_at := quantities_in[at];
        known := array_position(known_items, item_at);
        IF known IS NULL THEN
            -- An unused item (clause 2.4.2.3): the other lines are done nevertheless.
            missing := true;
            CONTINUE;
        END IF;
        price := known_prices[known];
        UPDATE stock SET
            s_quantity = s_quantity - quantity_at + CASE WHEN s_quantity >= quantity_at + 10 THEN 0 ELSE 91 END,
            s_ytd = s_ytd + quantity_at,
            s_order_cnt = s_order_cnt + 1,
            s_remote_cnt = s_remote_cnt + (supply_at <> warehouse_in)::integer
            WHERE s_w_id = supply_at AND s_i_id = item_at
            RETURNING s_quantity, originals[known] AND s_data LIKE '%ORIGINAL%',
                CASE WHEN district_in = 1 THEN s_dist_01 WHEN district_in = 2 THEN s_dist_02
                    WHEN district_in = 3 THEN s_dist_03 WHEN district_in = 4 THEN s_dist_04
                    WHEN district_in = 5 THEN s_dist_05 WHEN district_in = 6 THEN s_dist_06
                    WHEN district_in = 7 THEN s_dist_07 WHEN district_in = 8 THEN s_dist_08
                    WHEN district_in = 9 THEN s_dist_09 WHEN district_in = 10 THEN s_dist_10 END
            INTO STRICT stock_left, brand, dist;
        INSERT INTO order_line (ol_o_id, ol_d_id, ol_w_id, ol_number, ol_i_id, ol_supply_w_id, ol_delivery_d,
            ol_quantity, ol_amount, ol_dist_info)
            VALUES (order_id, district_in, warehouse_in, lines_in[at], item_at, supply_at, NULL,
                quantity_at, price * quantity_at, dist);
        lines[at] := lines_in[at];
        names[at] := known_names[known];
        prices[at] := price;
        stocks[at] := stock_left;
        brands[at] := brand;
        amounts[at] := price * quantity_at;
        total := total + price * quantity_at;
    END LOOP;
    IF missing THEN
        RAISE EXCEPTION USING ERRCODE = 'HM001', MESSAGE = 'Item number is not valid',
            DETAIL = concat_ws(' ', order_id, last_name, credit);
    END IF;
    total := total * (1 - discount) * (1 + warehouse_tax + district_tax);
END $$;

-- Clause 2.5. customer_in is 0 where the customer is looked for by last_name_in.
CREATE FUNCTION hardmeter_tpcc_payment(
    warehouse_in integer, district_in integer, customer_warehouse_in integer, customer_district_in integer,
    customer_in integer, last_name_in varchar, amount_in numeric,
    OUT paid timestamp,
    OUT warehouse_name varchar, OUT warehouse_street_1 varchar, OUT warehouse_street_2 varchar, OUT warehouse_city varchar,
    OUT warehouse_state char(2), OUT warehouse_zip char(9),
    OUT district_name varchar, OUT district_street_1 varchar, OUT district_street_2 varchar, OUT district_city varchar,
    OUT district_state char(2), OUT district_zip char(9),
    OUT customer_id integer, OUT first_name varchar, OUT middle_name char(2), OUT last_name varchar,
    OUT street_1 varchar, OUT street_2 varchar, OUT city varchar, OUT state char(2), OUT zip char(9), OUT phone char(16),
    OUT since timestamp, OUT credit char(2), OUT credit_limit numeric, OUT discount numeric, OUT balance numeric,
    OUT data varchar
) LANGUAGE plpgsql VOLATILE SET plan_cache_mode = force_custom_plan AS $$
BEGIN
    paid := localtimestamp;
    UPDATE warehouse SET w_ytd = w_ytd + amount_in WHERE w_id = warehouse_in
        RETURNING w_name, w_street_1, w_street_2, w_city, w_state, w_zip
        INTO STRICT warehouse_name, warehouse_street_1, warehouse_street_2, warehouse_city, warehouse_state, warehouse_zip;
    UPDATE district SET d_ytd = d_ytd + amount_in WHERE d_w_id = warehouse_in AND d_id = district_in
        RETURNING d_name, d_street_1, d_street_2, d_city, d_state, d_zip
        INTO STRICT district_name, district_street_1, district_street_2, district_city, district_state, district_zip;
    customer_id := customer_in;
    IF customer_in = 0 THEN
        -- Row n / 2, rounded up, of the customers with this name (clause 2.5.2.2).
        SELECT ids[(cardinality(ids) + 1) / 2] INTO customer_id FROM (
            SELECT array_agg(c_id ORDER BY c_first, c_id) AS ids FROM customer
            WHERE c_w_id = customer_warehouse_in AND c_d_id = customer_district_in AND c_last = last_name_in) AS named;
    END IF;
    UPDATE customer SET
        c_balance = c_balance - amount_in,
        c_ytd_payment = c_ytd_payment + amount_in,
        c_payment_cnt = c_payment_cnt + 1,
        -- concat_ws is stable, and Citus calls stable functions on the coordinator, where no column is.
        c_data = CASE WHEN c_credit = 'BC' THEN left(c_id || ' ' || c_d_id || ' ' || c_w_id || ' ' || district_in || ' '
            || warehouse_in || ' ' || amount_in || ' ' || c_data, 500) ELSE c_data END
        WHERE c_w_id = customer_warehouse_in AND c_d_id = customer_district_in AND c_id = customer_id
        RETURNING c_first, c_middle, c_last, c_street_1, c_street_2, c_city, c_state, c_zip, c_phone, c_since, c_credit,
            c_credit_lim, c_discount, c_balance, CASE WHEN c_credit = 'BC' THEN left(c_data, 200) END
        INTO STRICT first_name, middle_name, last_name, street_1, street_2, city, state, zip, phone, since, credit,
            credit_limit, discount, balance, data;
    INSERT INTO history (h_c_id, h_c_d_id, h_c_w_id, h_d_id, h_w_id, h_date, h_amount, h_data)
        VALUES (customer_id, customer_district_in, customer_warehouse_in, district_in, warehouse_in, paid, amount_in,
            warehouse_name || '    ' || district_name);
END $$;

-- Clause 2.6. One statement for one node, which has one snapshot; that of a STABLE function would be the coordinator's.
CREATE FUNCTION hardmeter_tpcc_order_status(
    warehouse_in integer, district_in integer, customer_in integer, last_name_in varchar,
    OUT customer_id integer, OUT first_name varchar, OUT middle_name char(2), OUT last_name varchar, OUT balance numeric,
    OUT order_id integer, OUT entered timestamp, OUT carrier integer,
    OUT items integer[], OUT supplies integer[], OUT quantities integer[], OUT amounts numeric[], OUT delivered timestamp[]
) LANGUAGE plpgsql VOLATILE SET plan_cache_mode = force_custom_plan AS $$
BEGIN
    customer_id := customer_in;
    IF customer_in = 0 THEN
        -- Names do not change in the mix: this may be a statement of its own.
        SELECT ids[(cardinality(ids) + 1) / 2] INTO customer_id FROM (
            SELECT array_agg(c_id ORDER BY c_first, c_id) AS ids FROM customer
            WHERE c_w_id = warehouse_in AND c_d_id = district_in AND c_last = last_name_in) AS named;
    END IF;
    SELECT c_first, c_middle, c_last, c_balance, o_id, o_entry_d, o_carrier_id, array_agg(ol_i_id),
        array_agg(ol_supply_w_id), array_agg(ol_quantity), array_agg(ol_amount), array_agg(ol_delivery_d)
        INTO STRICT first_name, middle_name, last_name, balance, order_id, entered, carrier, items, supplies, quantities,
            amounts, delivered
        FROM customer
            JOIN (SELECT o_w_id, o_id, o_entry_d, o_carrier_id FROM orders
                WHERE o_w_id = warehouse_in AND o_d_id = district_in AND o_c_id = customer_id
                ORDER BY o_id DESC LIMIT 1) AS last_order ON o_w_id = c_w_id
            JOIN order_line ON ol_w_id = c_w_id AND ol_d_id = c_d_id AND ol_o_id = o_id
        WHERE c_w_id = warehouse_in AND c_d_id = district_in AND c_id = customer_id AND ol_w_id = warehouse_in
        GROUP BY c_first, c_middle, c_last, c_balance, o_id, o_entry_d, o_carrier_id;
END $$;

-- Clause 2.7. orders_out: O_ID by district, 0 if it had no order to deliver.
CREATE FUNCTION hardmeter_tpcc_delivery(warehouse_in integer, carrier_in integer, OUT orders_out integer[])
LANGUAGE plpgsql VOLATILE SET plan_cache_mode = force_custom_plan AS $$
DECLARE
    oldest integer;
    customer_id integer;
    amount numeric;
    customers integer[];
    totals numeric[];
    today timestamp := localtimestamp;
BEGIN
    FOR district_id IN 1..10 LOOP
        SELECT no_o_id INTO oldest FROM new_order WHERE no_w_id = warehouse_in AND no_d_id = district_id
            ORDER BY no_o_id LIMIT 1 FOR UPDATE;
        orders_out[district_id] := coalesce(oldest, 0);
    END LOOP;
    FOR district_id IN 1..10 LOOP
        CONTINUE WHEN orders_out[district_id] > 0;
        -- No order: no New-Order of that district may commit before this transaction, or it would be a
        -- phantom (clause 3.4).
        PERFORM 1 FROM district WHERE d_w_id = warehouse_in AND d_id = district_id FOR NO KEY UPDATE;
        SELECT no_o_id INTO oldest FROM new_order WHERE no_w_id = warehouse_in AND no_d_id = district_id
            ORDER BY no_o_id LIMIT 1 FOR UPDATE;
        orders_out[district_id] := coalesce(oldest, 0);
    END LOOP;
    FOR district_id IN 1..10 LOOP
        CONTINUE WHEN orders_out[district_id] = 0;
        DELETE FROM new_order
            WHERE no_w_id = warehouse_in AND no_d_id = district_id AND no_o_id = orders_out[district_id];
        UPDATE orders SET o_carrier_id = carrier_in
            WHERE o_w_id = warehouse_in AND o_d_id = district_id AND o_id = orders_out[district_id]
            RETURNING o_c_id INTO STRICT customer_id;
        WITH delivered AS (
            UPDATE order_line SET ol_delivery_d = today
            WHERE ol_w_id = warehouse_in AND ol_d_id = district_id AND ol_o_id = orders_out[district_id] RETURNING ol_amount
        ) SELECT sum(ol_amount) INTO STRICT amount FROM delivered;
        customers[district_id] := customer_id;
        totals[district_id] := amount;
    END LOOP;
    -- Last, in the order of the tables in which all transactions lock.
    FOR district_id IN 1..10 LOOP
        CONTINUE WHEN orders_out[district_id] = 0;
        UPDATE customer SET c_balance = c_balance + totals[district_id], c_delivery_cnt = c_delivery_cnt + 1
            WHERE c_w_id = warehouse_in AND c_d_id = district_id AND c_id = customers[district_id];
    END LOOP;
END $$;

-- Clause 2.8. One statement for one node, as above.
CREATE FUNCTION hardmeter_tpcc_stock_level(
    warehouse_in integer, district_in integer, threshold_in integer, OUT low_stock integer
) LANGUAGE plpgsql VOLATILE SET plan_cache_mode = force_custom_plan AS $$
BEGIN
    SELECT count(*) INTO low_stock
        FROM (SELECT DISTINCT ol_i_id FROM order_line
            WHERE ol_w_id = warehouse_in AND ol_d_id = district_in
                AND ol_o_id >= (SELECT d_next_o_id - 20 FROM district WHERE d_w_id = warehouse_in AND d_id = district_in)
                AND ol_o_id < (SELECT d_next_o_id FROM district WHERE d_w_id = warehouse_in AND d_id = district_in)
            ) AS lately
            JOIN stock ON s_w_id = warehouse_in AND s_i_id = ol_i_id
        WHERE s_quantity < threshold_in;
END $$;
