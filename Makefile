# Thin lines over cargo and cargo xtask. `make help` lists what there is.

.DEFAULT_GOAL := help
.PHONY: help demo demo-down test test-unit test-api test-gateway test-e2e tools lint mutants generate bench

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## Run a whole cluster on this machine with the operator in it (needs root)
	cargo xtask demo

demo-down: ## Remove every trace of the demo
	cargo xtask kube down --dir .local/demo

test: test-unit test-api test-gateway test-e2e ## Run every tier, quickest first

test-unit: ## Run the tests that need no cluster
	@echo "=== tier: unit ==="
	cargo xtask test unit

test-api: tools ## Run the tests against a real API server
	@echo "=== tier: api ==="
	cargo xtask test api

test-gateway: tools ## Run the tests of the gateway with the real Envoy
	@echo "=== tier: gateway ==="
	cargo xtask test gateway

test-e2e: tools ## Run the tests on a whole cluster, with a node and pods
	@echo "=== tier: e2e ==="
	cargo xtask test e2e

tools: ## Build and fetch the pinned tools into a cache outside the tree, once
	cargo xtask tools

lint: ## Check formatting, clippy, walls, licences and generated files
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	cargo xtask lint-deps
	cargo xtask generate --check
	cargo xtask deny

mutants: ## Check that the tests find injected bugs in the decision code (half an hour)
	cargo xtask mutants

bench: tools ## Measure what somebody waits for, and compare it with the targets
	cargo xtask bench

generate: ## Renew every generated file
	cargo xtask generate
